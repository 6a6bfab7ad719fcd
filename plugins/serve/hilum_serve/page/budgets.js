// Texts about budgets: which one it is, and what is spent of it.

import { formatCost, formatDuration, formatTokens } from './format.js';
import { t } from './strings.js';

/** Return which budget it is: that of the session, of the day, of an agent or of a plugin. */
export function nameBudget(budget) {
  const [kind, ...rest] = budget.budget.split(' ');
  const name = rest.join(' ');
  return ['session', 'day', 'agent', 'plugin'].includes(kind) ? t(`budget_${kind}`, { name }) : budget.budget;
}

/** Return what is spent of what limit. */
export function describeBudget(budget) {
  const spent = budget.unit === 'tokens' ? formatTokens(Math.round(budget.spent)) : formatAmount(budget.unit, budget.spent);
  return t('n_of_m', { n: spent, m: formatAmount(budget.unit, budget.limit) });
}

function formatAmount(unit, amount) {
  if (unit === 'dollars') {
    return formatCost(amount);
  }
  return unit === 'minutes' ? formatDuration(amount * 60) || '0 s' : t('n_tokens', { n: formatTokens(Math.round(amount)) });
}
