package runlog

import "github.com/troupe-dev/troupe/llm"

// Reasons to stop that are not a model's: [RunFinished].Stop.
const (
	StopLimit     = "limit"
	StopCancelled = "cancelled"
	StopFailed    = "failed"
	StopWaiting   = "waiting"   // suspended
	StopLeft      = "left"      // another process has the run, or will have it
	StopCondition = "condition" // a condition of the program holds
	StopGuard     = "guard"     // the answer is a guard's, in place of the model's
	StopRepeats   = "repeats"   // the model has turned in circles, though it was told
)

// The costs of a run beside its own turns: [Spent].What.
const (
	SpentSampling = "sampling" // a server has asked a model during a call
	SpentSummary  = "summary"  // of what is left out of the conversation
)

// Version is that of the journals that this program writes. A reader ignores the events and
// members that it does not know, so that it can read later ones.
const Version = 3

// The reasons of a run to say something to the model: [InputAdded].Why.
const (
	AddedRedo    = "redo"    // the answer was not of the form that was asked for
	AddedRefused = "refused" // a guard has refused the answer
	AddedEmpty   = "empty"   // the answer was empty
	AddedLast    = "last"    // it is to answer for the last time
	AddedRepeats = "repeats" // it turns in circles
	AddedForked  = "forked"  // a person has forked the run, and says something
)

// The actions of guards: [GuardActed].Action.
const (
	GuardChanged = "changed"
	GuardRefused = "refused"
	GuardStopped = "stopped"
)

// The reactions of a run to a limit: [LimitReached].Then.
const (
	LimitStop   = "stop"    // the run ends
	LimitAsk    = "ask"     // the run asks a person for more, and ends without a yes
	LimitWrapUp = "wrap-up" // the model answers once more, without calling tools, with what it has
)

// Usage is the cost of a run, or of one turn of it, without the runs that it has started.
type Usage struct {
	Input  int `json:"input"`
	Output int `json:"output"`
	// Estimated says that part of it was counted from bytes, because a provider
	// gave no numbers or a turn did not complete.
	Estimated bool `json:"estimated,omitzero"`
	// Cost is in money, where there is a price.
	Cost llm.Money `json:"cost,omitzero"`
	// Over is by how many tokens, and OverCost by how much money, the run and all that
	// it has started are beyond its limits: the error of an estimate. Of a turn it is zero.
	Over     int       `json:"over,omitzero"`
	OverCost llm.Money `json:"overCost,omitzero"`
}

// Total returns input and output together.
func (u Usage) Total() int { return u.Input + u.Output }

// Plus returns the sum of two usages; it does not add what is over.
func (u Usage) Plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Estimated: u.Estimated || v.Estimated, Cost: u.Cost + v.Cost}
}

// Absent is a server whose tools a run does without.
type Absent struct {
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// ServerText is the instructions of a server: its own words, for the model.
type ServerText struct {
	Server string `json:"server"`
	Text   string `json:"text"` // as the model gets it
}

// Taint has the parts of the lethal trio (SECA-44) that a tool has: private data, untrusted
// text and a way out. Together in one run they let the author of the text have the data.
type Taint struct {
	Untrusted bool `json:"untrusted,omitzero"` // its results may hold what strangers have written
	Private   bool `json:"private,omitzero"`   // its results may hold what strangers must not see
	Outbound  bool `json:"outbound,omitzero"`  // its arguments may reach strangers
}

// Account is the name of the account of a run.
func Account(run string) string { return "run " + run }
