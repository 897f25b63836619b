// Which firing alerts are new to a browser, and the notifications about them. Pure.

/** Tag of a notification about several alerts. */
export const SEVERAL = "several";
const SINGLE = 3; // more alerts at once are one notification
const REMEMBERED = 500;

/**
 * Return the alerts that were not shown yet, and the identifiers to remember. `shown`: those remembered; null: the
 * first look, at which alerts that fire already are not new.
 *
 * @param {any[]} firing
 * @param {string[] | null} shown
 */
export function newAlerts(firing, shown) {
  const ids = firing.map((each) => each.id);
  const known = new Set(shown ?? ids);
  const fresh = firing.filter((each) => !known.has(each.id));
  const before = (shown ?? []).filter((id) => !ids.includes(id));
  return { fresh, remembered: [...before, ...ids].slice(-REMEMBERED) };
}

/**
 * Return {title, body, tag, renotify, alert} of each notification; `alert`: null for one about several alerts, which
 * replaces an earlier one, and draws attention again.
 *
 * @param {any[]} fresh
 */
export function notificationsOf(fresh) {
  if (fresh.length <= SINGLE)
    return fresh.map((each) => ({
      title: `${each.title}: ${each.name}`,
      body: `${each.saw}\nRule ${each.rule}, broker ${each.broker}`,
      tag: each.id,
      renotify: false,
      alert: each,
    }));
  const names = fresh.slice(0, SINGLE).map((each) => `${each.title}: ${each.name}`);
  const more = `and ${(fresh.length - SINGLE).toLocaleString("en")} more`;
  return [
    {
      title: `${fresh.length.toLocaleString("en")} alerts fire`,
      body: [...names, more].join("\n"),
      tag: SEVERAL,
      renotify: true,
      alert: null,
    },
  ];
}
