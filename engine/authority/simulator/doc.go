// Package simulator is the other side of the wire: a tax authority (Ministerio de Hacienda, MH) that runs in a test
// or in a process of its own. It is an independent reading of MH's manuals and schemas and shares no code with the
// programs that it judges; where the two readings differ, a test fails, and that is its purpose.
//
// It is hostile on request: see [Chaos] and README.md, which lists each hostility with its off switch and each check
// with its source. What it remembers lives in memory only: nothing survives the process, and nothing survives Reset.
//
// Sources, as cited in comments: MT1 is the Manual Técnico v1.0 (02/2023), MF2 the Manual Funcional V2.0 (05/2026),
// NV2 the Normativa de Cumplimiento v2.0 (25-05-2026), ME the field manuals of the generation before, CAT the
// catalogues v1.1 (07/2026), SC8 MH's JSON schemas of August 2026. "Observed" means the answers of the real apitest
// and production services that integrators published.
package simulator
