// The policy fields of a schedule, in words, where the page may not know their declarations.

import { settings } from "../pages/frame.js";
import { fieldText, labelBeside } from "./policy_fields.js";

export const settingText = (name, value) => (settings.policy ? `${labelBeside(name, value)} ${value === null ? "inherited" : fieldText(name, value)}` : `${name} ${value}`);
