package bench

// AgentsSchema names the shape of an [AgentsReport].
const AgentsSchema = "troupe.bench.agents/1"

// AgentsReport is what [Agents] has measured.
type AgentsReport struct {
	Schema   string  `json:"schema"` // [AgentsSchema]
	Machine  Machine `json:"machine"`
	Sessions int     `json:"sessions"`
	Turns    int     `json:"turns"`
	History  int     `json:"historyBytes"`
	Tools    int     `json:"tools"`
	ThinkMS  float64 `json:"thinkMs,omitzero"`
	WorkMS   float64 `json:"workMs,omitzero"`
	Journal  string  `json:"journal"`           // "store" or "memory"
	Live     *Live   `json:"live,omitzero"`     // of sessions that wait
	Passed   *Passed `json:"passed,omitzero"`   // of sessions that come and go
	Cut      bool    `json:"cutShort,omitzero"` // it was interrupted
}

// Live is the memory of sessions that wait, half of them for the model, half for a tool.
type Live struct {
	Base   Memory `json:"base"`   // before there was a runtime
	Memory Memory `json:"memory"` // with all sessions waiting
	// Settled is the same after SettleSeconds in which nothing happened.
	Settled       *Memory `json:"settled,omitzero"`
	SettleSeconds float64 `json:"settleSeconds,omitzero"`

	ForModel    int64   `json:"forModel"`
	ForTool     int64   `json:"forTool"`
	PerSession  float64 `json:"residentPerSession"` // bytes
	OpenSeconds float64 `json:"openSeconds"`        // until all of them waited
}

// Passed is how sessions have passed.
type Passed struct {
	Seconds  float64 `json:"seconds"`
	Sessions int64   `json:"sessions"`
	Failed   int64   `json:"failed,omitzero"`
	Error    string  `json:"error,omitzero"` // the first
	Rate     float64 `json:"sessionsPerSecond"`
	// CPUMicros is the CPU time of the process for one turn, in µs.
	CPUMicros float64 `json:"cpuUsPerTurn"`
	// Overhead is the time between the end of a model's turn and the begin of the next
	// one of the session, with a tool call between them, in µs. Sessions that begin as soon
	// as others end keep the processors busy, so most of it is queueing.
	Overhead Latency `json:"overheadPerTurnUs"`
	// Alone is the same of one session at a time, before there was load: the service time.
	Alone Latency `json:"alonePerTurnUs"`
	// QueueingMicros is by how much the mean of Overhead is above that of Alone, in µs.
	QueueingMicros float64 `json:"queueingUsPerTurn"`
	Session        Latency `json:"sessionUs"`
}
