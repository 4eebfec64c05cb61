package actors

import (
	"fmt"
	"time"
)

// Kind says what an actor is for. It chooses the row of the supervision table
// and is what the census counts by.
type Kind uint8

// The kinds of actor. The comment is the name in census, tree and logs.
const (
	KindRuntime      Kind = iota // runtime
	KindLLM                      // llm
	KindProvider                 // provider
	KindCompletion               // completion
	KindHost                     // host
	KindTenant                   // tenant: a host of one tenant's own connections
	KindClient                   // client: a connection to one server
	KindTransport                // transport
	KindCall                     // call: one logical outgoing request
	KindServer                   // server
	KindSession                  // session: a connection from one client
	KindInbound                  // inbound: one incoming request
	KindInvocation               // invocation: a handler at work whose client was asked, over all rounds of the call
	KindElicitation              // elicitation
	KindSubscription             // subscription
	KindKeeper                   // keeper: the authorization of a client at one server
	KindTask                     // task: one task of a peer that is watched, or one of ours that a peer watches
	KindAgents                   // agents
	KindRun                      // run
	KindLoop                     // loop
	KindInbox                    // inbox
	KindHooks                    // hooks: sees to it that webhooks are delivered
	KindHook                     // hook: one webhook
	KindWorker                   // worker: claims jobs from a queue
	KindJob                      // job: one of them, and its attempts here
	numKinds
)

var kindNames = [numKinds]string{
	KindRuntime: "runtime", KindLLM: "llm", KindProvider: "provider",
	KindCompletion: "completion", KindHost: "host", KindTenant: "tenant", KindClient: "client", KindTransport: "transport",
	KindCall: "call", KindServer: "server", KindSession: "session", KindInbound: "inbound", KindInvocation: "invocation",
	KindElicitation: "elicitation", KindKeeper: "keeper", KindSubscription: "subscription", KindTask: "task", KindAgents: "agents",
	KindRun: "run", KindLoop: "loop", KindInbox: "inbox", KindHooks: "hooks", KindHook: "hook",
	KindWorker: "worker", KindJob: "job",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Kinds returns every kind, in the order of the tree.
func Kinds() []Kind {
	all := make([]Kind, numKinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Action is what a supervisor does with a child that failed.
type Action uint8

// The actions. Escalate fails the supervisor itself.
const (
	Stop Action = iota
	Restart
	Escalate
)

// Policy is one row of the supervision table.
type Policy struct {
	On Action // at a failure
	// Max failures within Window are answered by a restart; the next one leads
	// to Then. Both are zero unless On is Restart.
	Max    int
	Window time.Duration
	Then   Action
	// FirstDelay and MaxDelay bound the wait before a restart: it doubles with
	// each failure within Window. Zero restarts at once.
	FirstDelay, MaxDelay time.Duration
}

// kernel is the policy of the actors that hold the tree together: they do no
// I/O, so five failures in a minute mean a bug, which ends the runtime.
var kernel = Policy{On: Restart, Max: 5, Window: time.Minute, Then: Escalate}

// policies is the supervision table.
var policies = [numKinds]Policy{
	KindRuntime: {On: Escalate},
	KindHost:    kernel,
	KindServer:  kernel,
	KindLLM:     kernel,
	KindAgents:  kernel,
	KindInbox:   kernel,

	// What is to be delivered is in the store, and waits there if webhooks end.
	KindHooks: {On: Restart, Max: 5, Window: time.Minute, Then: Stop},
	KindHook:  {On: Stop},

	// A tenant's own connections: a bug that shows there is no harm to others.
	KindTenant: {On: Restart, Max: 5, Window: time.Minute, Then: Stop},

	// A connection's state is rebuilt by its handshake.
	KindClient: {On: Restart, Max: 5, Window: time.Minute, Then: Stop, FirstDelay: 100 * time.Millisecond, MaxDelay: 30 * time.Second},
	// A session's state belongs to the peer, which must open another.
	KindSession: {On: Stop},
	// A new generation is a new child.
	KindTransport: {On: Stop},

	// May have had effects: never restarted, the caller gets its one outcome.
	KindCall:         {On: Stop},
	KindInbound:      {On: Stop},
	KindInvocation:   {On: Stop}, // the same retry runs its handler again
	KindElicitation:  {On: Stop},
	KindSubscription: {On: Stop},
	KindTask:         {On: Stop},
	// Its tokens are in the store, and the next request has another.
	KindKeeper: {On: Stop},
	// The provider decides on a retry.
	KindProvider:   kernel,
	KindCompletion: {On: Stop},

	// Restarting from the journal is the business of the run's owner.
	KindRun:  {On: Stop},
	KindLoop: {On: Stop},
	// A job that is not renewed any more is claimed again, here or elsewhere, and what
	// was done of it is in its journal.
	KindWorker: {On: Stop},
	KindJob:    {On: Stop},
}

// PolicyOf returns the row of k in the supervision table.
func PolicyOf(k Kind) Policy {
	if k < numKinds {
		return policies[k]
	}
	return Policy{}
}
