import React from 'react';
import Badge from './Badge.jsx';

export default function Card({ title, badge, children }) {
  return (
    <section className="card">
      <h2>
        {title} {badge && <Badge text={badge} />}
      </h2>
      {children}
    </section>
  );
}
