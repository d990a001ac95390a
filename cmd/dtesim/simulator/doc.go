// Package simulator is a simulated tax authority (Ministerio de Hacienda, MH) that runs in a test or in its own
// process. It is an independent reading of MH's manuals and schemas and shares no code with the programs that it
// judges. Where the two readings differ, a test fails: this is its purpose.
//
// [New] makes a simulator; [Simulator.Protocol] and [Simulator.Manage] are its two handlers, and [Simulator.Serve] runs
// them on any listeners. It receives every type of document in both generations, alone or in lots, contingency events
// and invalidations. It is hostile on request, at once ([Simulator.Chaos]) or by the clock ([Simulator.Schedule]);
// README.md lists each hostility with its off switch and each check with its source. [Simulator.Received],
// [Simulator.Document], [Simulator.Accepted] and [Simulator.Events] return what it holds; [Simulator.Audit] lists the
// rules that a branch broke, whatever the answers were. The simulator keeps its state in memory, and accepted documents
// also in the file of [Simulator.Keep]; nothing survives [Simulator.Reset].
//
// Each of these packages imports only the packages before it: document checks one document by itself; hostility makes
// things go wrong on request; registry keeps what was received, and judges by it; protocol is MH's HTTP interface; this
// package joins them and has the management port.
//
// MH's time is Options.Now, shifted by Chaos.ClockMS. Dates, deadlines, tokens and lots follow MH's time; work that is
// due is done by the next request or observation. No goroutine works in the background. Delays of answers and schedules
// follow the process's timers. Under testing/synctest, with listeners in memory, all times are fake. No lock is held
// while an answer is delayed or a signature verified. An accepted document occupies its bytes and little more.
//
// Sources, as cited in comments: MT1 is the Manual Técnico v1.0 (02/2023), MF2 the Manual Funcional V2.0 (05/2026), NV2
// the Normativa de Cumplimiento v2.0 (25-05-2026), ME the field manuals of the previous generation, CAT the catalogues
// v1.1 (07/2026), SC8 MH's JSON schemas of August 2026. "Observed" means seen in answers of MH's apitest or production
// services that integrators published.
package simulator
