/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks of files: see posix.h, which every source begins with.
 */
