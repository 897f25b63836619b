/** What charts.js uses of Plotly, which a page loads as a classic script. */
declare const Plotly: {
  react(element: HTMLElement, data: unknown[], layout: object, config: object): void;
  purge(element: HTMLElement): void;
};
