import React from 'react';

export default function Footer({ count }) {
  return <footer>{count} tasks</footer>;
}
