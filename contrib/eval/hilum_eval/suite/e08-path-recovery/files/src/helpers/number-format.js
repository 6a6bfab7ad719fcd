// Formats prices.
export function formatPrice(cents) {
  return `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')} EUR`;
}
