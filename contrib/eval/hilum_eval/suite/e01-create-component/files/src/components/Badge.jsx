import React from 'react';

export default function Badge({ text, tone = 'neutral' }) {
  return <span className={`badge badge--${tone}`}>{text}</span>;
}
