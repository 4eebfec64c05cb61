package agent

import (
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Sampling lets servers ask a model, at the user's cost (sampling/createMessage): with
// and without tools, which the server alone carries out. The zero value asks a person
// before each request is made and before its answer goes out: who answers for the run
// whose call it belongs to, or [mcpclient.AskOptions].Human of [Options].Host where it
// belongs to none. Without a person nothing is sampled.
//
// What is sampled during a call of a run is charged to that run, and holds to its
// limits; everything is charged to the server, and holds to its policy.
type Sampling struct {
	// Model answers. Nil means the runtime's.
	Model llm.Model
	// Default is the policy for servers that are not in Servers.
	Default SamplingPolicy
	// Servers are the policies by the servers' names.
	Servers map[string]SamplingPolicy
}

// SamplingPolicy says what one server may have of the model. Tokens, Cost and
// Requests are for the life of the runtime.
type SamplingPolicy struct {
	// Mode is ask, allow or deny. Empty means that of the [mcpclient.Server], and else ask.
	Mode mcpclient.SamplingMode
	// Tokens bounds input and output of all requests. Zero means 200,000, and below
	// zero there is no limit.
	Tokens int
	// Cost bounds what they cost. Zero means no limit; with one, the price of every
	// model that may answer must be known.
	Cost llm.Money
	// Requests bounds how often a model is asked. Zero means no limit.
	Requests int
	// PerMinute bounds how often the server may ask within a minute. Zero
	// means 60.
	PerMinute int
	// MaxTokens bounds the output of one answer. Zero means as much as is asked for.
	MaxTokens int
	// Models are the only models that may answer, by their names with or without the
	// provider. Nil means all.
	Models []string
	// Context is how much of a run the server may have added to what it asks:
	// [mcp.ContextThisServer] for its own instructions and what its tools were asked
	// and have answered, [mcp.ContextAllServers] for all servers of the run. Empty
	// means nothing, and then it is not even declared.
	Context string
}
