// Values that another page proposes for the policy editor: `?set=capacity_messages:4700`, once for each field. They are
// entered as if typed, so they are previewed and nothing is saved.

/**
 * Enter the proposed values into their fields, except those that are effective already.
 *
 * @param {any[]} fields
 * @param {Record<string, {value: any}>} effective
 */
export function enterInitialValues(fields, effective) {
  const proposed = new Map(
    new URLSearchParams(location.search).getAll("set").map((text) => {
      const [name, ...value] = text.split(":");
      return /** @type {[string, string]} */ ([name, value.join(":")]);
    }),
  );
  for (const field of fields) {
    const { name } = field.declared;
    const value = proposed.get(name);
    if (value === undefined) continue;
    // A stop level that is not set is 100% of the capacity.
    const now = effective[name]?.value ?? (name.startsWith("flow_stop_") ? "100%" : null);
    if (String(now) !== value) field.set(value);
  }
}
