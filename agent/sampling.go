package agent

import (
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Sampling lets servers ask a model, at the user's cost (sampling/createMessage): with
// and without tools, which the server alone carries out. The zero value asks a person
// before each request is made and before its answer goes out: the one who answers for
// the run whose call it belongs to, or [mcpclient.AskOptions].Human of [Options].Host
// where it belongs to none. Without a person nothing is sampled.
//
// Sampling during a call of a run is charged to that run, and holds to its limits; all
// sampling is charged to the server, and holds to its policy.
type Sampling struct {
	// Model answers. Nil means the runtime's.
	Model llm.Model
	// Default is the policy for servers that are not in Servers.
	Default SamplingPolicy
	// Servers are the policies by the servers' names.
	Servers map[string]SamplingPolicy
}

// SamplingPolicy limits the use of the model by one server. Tokens, Cost and
// Requests are for the life of the runtime.
type SamplingPolicy struct {
	// Mode is ask, allow or deny. Empty means that of the [mcpclient.Server], and else ask.
	Mode mcpclient.SamplingMode
	// Tokens bounds input and output of all requests. Zero means 200,000, and below
	// zero there is no limit.
	Tokens int
	// Cost bounds their cost. Zero means no limit; with one, every model that may answer
	// must have a known price.
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
	// Context is how much of a run the server may have added to its requests:
	// [mcp.ContextThisServer] for its own instructions and the calls and results of its
	// tools, [mcp.ContextAllServers] for all servers of the run. Empty means nothing, and
	// then it is not even declared.
	Context string
}
