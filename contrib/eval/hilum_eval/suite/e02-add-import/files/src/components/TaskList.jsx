import React from 'react';

export default function TaskList({ tasks }) {
  return (
    <ul className="tasks">
      {tasks.map((task) => (
        <li key={task.title}>{task.title}</li>
      ))}
    </ul>
  );
}
