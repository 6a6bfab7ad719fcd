import React from 'react';

export default function Toolbar({ order }) {
  return (
    <div className="toolbar" role="toolbar">
      Sorted by {order}
    </div>
  );
}
