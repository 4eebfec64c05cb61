package agent

import "github.com/troupe-dev/troupe/actors/loop"

// Guard looks at what goes in and out of the runs of an agent, at five points: before
// and after the model, before and after a tool, and at the answer. It may let pass,
// change, refuse with a text for the model, or stop the run; see [loop.Guard] for what
// that means at each point.
//
// Guards are asked in the order of [Config.Guards], each seeing what the one before has
// left; the first that refuses or stops is the last. A panic stops the run. What a
// guard has done is a [GuardActed] event, and in the journal; what it has taken away is
// in neither. While a sub-agent runs its own guards look, and after a hand-off those of
// the agent that goes on.
type Guard = loop.Guard

// What guards see, and what they say.
type (
	// GuardAt is the run and the turn, a part of all the others: see [loop.GuardAt].
	GuardAt = loop.GuardAt
	// GuardTurn is what BeforeModel sees: see [loop.GuardTurn].
	GuardTurn = loop.GuardTurn
	// GuardReply is what AfterModel sees: see [loop.GuardReply].
	GuardReply = loop.GuardReply
	// GuardCall is what BeforeTool sees: see [loop.GuardCall].
	GuardCall = loop.GuardCall
	// GuardReturn is what AfterTool sees: see [loop.GuardReturn].
	GuardReturn = loop.GuardReturn
	// GuardAnswer is what Final sees: see [loop.GuardAnswer].
	GuardAnswer = loop.GuardAnswer
	// GuardResult is what a guard says: [Change], [Refuse], [StopRun], or its zero value,
	// which lets pass.
	GuardResult = loop.GuardResult
	// GuardPoint is where a guard has acted.
	GuardPoint = loop.GuardPoint
	// GuardError ends a run that a guard has stopped.
	GuardError = loop.GuardError
)

// The points at which guards look.
const (
	PointBeforeModel = loop.PointBeforeModel
	PointAfterModel  = loop.PointAfterModel
	PointBeforeTool  = loop.PointBeforeTool
	PointAfterTool   = loop.PointAfterTool
	PointFinal       = loop.PointFinal
)

// Change is what a guard says that has changed what it was given: without it a change
// does not count. Why is for the journal.
func Change(why string) GuardResult { return loop.Changed(why) }

// Refuse is what a guard says that does not let pass. The text is for the model.
func Refuse(text string) GuardResult { return loop.Refused(text) }

// StopRun is what a guard says that fails the run, with a [*GuardError].
func StopRun(reason string) GuardResult { return loop.Stopped(reason) }
