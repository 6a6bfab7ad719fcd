export const byPriority = (a, b) => (a.priority ?? 99) - (b.priority ?? 99);
