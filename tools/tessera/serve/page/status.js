// SPDX-License-Identifier: Apache-2.0
function startStatus() { startInterface(() => {}); }
