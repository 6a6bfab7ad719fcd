export { default as Badge } from './Badge.jsx';
export { default as Card } from './Card.jsx';
