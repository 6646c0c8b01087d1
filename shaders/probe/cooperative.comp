#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of no shader: compiles where the compiler knows cooperative matrices (see shaders/meson.build).
 */
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

layout(constant_id = 2) const uint side = 16u;

layout(set = 0, binding = 0, std430) buffer words
{
  uvec4 at[];
};

void main()
{
  coopmat<float16_t, gl_ScopeSubgroup, side, side, gl_MatrixUseA> a;
  coopMatLoad(a, at, 0u, 2u, gl_CooperativeMatrixLayoutRowMajor);
  coopMatStore(a, at, 32u, 2u, gl_CooperativeMatrixLayoutRowMajor);
}
