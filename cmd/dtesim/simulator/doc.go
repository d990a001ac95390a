// Package simulator is the other side of the wire: a tax authority (Ministerio de Hacienda, MH) that runs in a test or
// in a process of its own. It is an independent reading of MH's manuals and schemas and shares no code with the
// programs that it judges; where the two readings differ, a test fails, and that is its purpose.
//
// [New] makes one, [Simulator.Protocol] and [Simulator.Manage] are its two handlers, [Simulator.Serve] runs them on
// listeners of any kind. It receives every type of document in both generations, alone or in lots, contingency events
// and invalidations. It is hostile on request, at once ([Simulator.Chaos]) or by the clock ([Simulator.Schedule]);
// README.md lists each hostility with its off switch and each check with its source. It can be asked what it holds
// ([Simulator.Received], [Simulator.Document], [Simulator.Accepted], [Simulator.Events]) and which rules a branch broke
// on the way, whatever the answers said ([Simulator.Audit]). What it remembers lives in memory, and what it accepted in
// the file of [Simulator.Keep]; nothing survives [Simulator.Reset].
//
// The rooms, each of which imports only those before it: document checks one document by itself; hostility is what goes
// wrong on request; registry is what was received, and judges by it; protocol is MH's HTTP interface; this package puts
// them together and has the management port.
//
// MH's time is Options.Now, shifted by Chaos.ClockMS: dates, deadlines, tokens and lots go by it, and whatever is due
// is done by the first request or observation that comes after. No goroutine works in the background. Delays of answers
// and schedules go by the process's timers. Under testing/synctest, with listeners in memory, all of it is fake time.
// No lock is held while an answer is delayed or a signature verified; a document accepted keeps its bytes and little
// more.
//
// Sources, as cited in comments: MT1 is the Manual Técnico v1.0 (02/2023), MF2 the Manual Funcional V2.0 (05/2026), NV2
// the Normativa de Cumplimiento v2.0 (25-05-2026), ME the field manuals of the generation before, CAT the catalogues
// v1.1 (07/2026), SC8 MH's JSON schemas of August 2026. "Observed" means the answers of the real apitest and production
// services that integrators published.
package simulator
