import { formatSpan } from '../helpers/clock-format.js';

export const hours = (days) => days.map(({ name, from, to }) => `${name} ${formatSpan(from, to)}`).join('\n');
