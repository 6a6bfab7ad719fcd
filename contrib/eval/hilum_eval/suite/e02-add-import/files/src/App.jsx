import React, { useState } from 'react';
import './App.css';
import { byPriority } from './order.js';
import TaskList from './components/TaskList';
import Footer from './components/Footer';

// The order in which tasks are shown.
const ORDERS = ['priority', 'title'];

export default function App({ tasks = [] }) {
  const [order] = useState(ORDERS[0]);
  const sorted = order === 'priority' ? [...tasks].sort(byPriority) : tasks;

  return (
    <main className="app">
      <h1>Tasks</h1>
      <TaskList tasks={sorted} />
      <Footer count={tasks.length} />
    </main>
  );
}
