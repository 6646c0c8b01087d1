/* SPDX-License-Identifier: Apache-2.0
 *
 * Components: parts of the program whose libraries are large. Each is a shared object, which is opened when it is first
 * asked for, so that no other command waits for those libraries or needs them installed. A component uses the program's
 * own functions, as far as program.symbols exports them.
 */
#ifndef TESSERA_TOOLS_COMPONENT_H
#define TESSERA_TOOLS_COMPONENT_H

/* Before the definition of what the program looks up in a component. */
#define TSR_COMPONENT_EXPORT __attribute__((visibility("default")))

/* Looks `symbol` up in the component: "documents", "png" or "serve". Some builds have the components within the program
 * itself. Returns an exit code: TSR_EXIT_INPUT, with a message, where the component is not installed, cannot be loaded,
 * or is of another version of the program. The component stays open; `symbol` is valid until the program ends. */
int tsr_component_find(const char *component, const char *symbol, void **found);

/* 1 if the component is there, without opening it. */
int tsr_component_is_there(const char *component, const char *symbol);

#endif
