package jobapi

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// MetricsOptions are the sources of the metrics.
type MetricsOptions struct {
	System *actors.System // required
	Store  store.Store    // required
	Probe  *StoreProbe    // required
	// Version and Commit are those of the program.
	Version, Commit string
	// Now returns the jobs of this worker. Nil leaves them out.
	Now func() Places
	// Clients returns how many clients are served. Nil leaves it out.
	Clients func() int
	// Servers returns the use of the MCP servers. Nil leaves it out.
	Servers func() []ServerUse
	// Providers returns how the providers of models stand. Nil leaves it out.
	Providers func() []Provider
	// Stalled returns how many runs wait until the store takes their events. Nil leaves it
	// out.
	Stalled func() int
}

// ServerUse is how many processes an MCP server has, and how many calls wait for one.
type ServerUse struct {
	Name               string
	Instances, Waiting int
}

// Provider is how a provider of models stands.
type Provider struct {
	Name string
	// Circuit is "closed", "open" or "half-open".
	Circuit string
	// Class says why it is away, see [llm.Class]; empty if it works. Since is since when, and Until
	// when an open circuit lets a request through; both may be zero.
	Class        string
	Since, Until time.Time
	Errors       map[string]int64 // failed requests, by class; each attempt counts
}

// Metric is the value of troupe_provider_circuit: 1 where the circuit is open, or each request is
// refused; a half where the pause of the circuit is over, and the next request tries; 0 where it works.
func (p *Provider) Metric() float64 {
	switch {
	case p.Class == "":
		return 0
	case p.Circuit == "half-open":
		return 0.5
	}
	return 1
}

// maxProviders bounds the providers of the metrics, and of /readyz: names are those of the
// configuration, but a program may make models as it likes.
const maxProviders = 100

// Places are the jobs that a worker has.
type Places struct {
	Running, Waiting, Aside int // at work, waiting for a person before they are parked, waiting to run alone
	MaxWaiting              int // the bound of those that wait
}

// Metrics counts the work of a worker. It holds no prompt, argument or result: the labels are
// names of the configuration.
type Metrics struct {
	registry *prometheus.Registry

	ended      *prometheus.CounterVec
	events     *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	wait       *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	cost       *prometheus.CounterVec
	modelCalls *prometheus.CounterVec
	toolCalls  *prometheus.CounterVec
	hooks      *prometheus.CounterVec
}

// NewMetrics returns metrics with a registry of their own.
func NewMetrics(o MetricsOptions) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	buckets := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"agent"})
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		ended:      counter("troupe_jobs_ended_total", "Jobs that have ended in this worker.", "agent", "state"),
		events:     counter("troupe_job_events_total", "What has happened to jobs of this worker.", "event"),
		duration:   histogram("troupe_job_duration_seconds", "From the beginning of a job's last attempt to its end."),
		wait:       histogram("troupe_job_wait_seconds", "From when a job was due to its beginning."),
		tokens:     counter("troupe_tokens_total", "Tokens that jobs have spent, input and output.", "agent"),
		cost:       counter("troupe_cost_total", "Money that jobs have spent, in the currency of the configured prices.", "agent"),
		modelCalls: counter("troupe_model_calls_total", "Requests to models made for jobs.", "agent"),
		toolCalls:  counter("troupe_tool_calls_total", "Calls of tools made for jobs.", "agent"),
		hooks:      counter("troupe_webhooks_total", "Webhooks that have ended: delivered, failed or refused.", "result"),
	}
	m.registry.MustRegister(m.ended, m.events, m.duration, m.wait, m.tokens, m.cost, m.modelCalls, m.toolCalls, m.hooks,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &snapshot{opts: o})
	return m
}

// Handler answers with the text that Prometheus reads.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Event counts an event of a job, such as "job.started".
func (m *Metrics) Event(name string) { m.events.WithLabelValues(name).Inc() }

// Started counts the beginning of a job, and how long it had been due.
func (m *Metrics) Started(j store.Job, waited time.Duration) {
	m.wait.WithLabelValues(j.Agent).Observe(max(0, waited).Seconds())
}

// Hook counts a webhook that has ended.
func (m *Metrics) Hook(result string) { m.hooks.WithLabelValues(result).Inc() }

// Ended counts the end of a job, and its cost. An unknown duration is zero.
func (m *Metrics) Ended(j store.Job, took time.Duration) {
	m.ended.WithLabelValues(j.Agent, string(j.State)).Inc()
	if took > 0 {
		m.duration.WithLabelValues(j.Agent).Observe(took.Seconds())
	}
	m.Spent(j, j.Result)
}

// Spent counts the cost of an attempt, by its result; nil counts nothing.
func (m *Metrics) Spent(j store.Job, attempt json.RawMessage) {
	var result struct {
		Spent budget.Amount `json:"spent"`
	}
	if len(attempt) == 0 || jsonx.Unmarshal(attempt, &result) != nil {
		return
	}
	s := result.Spent
	m.tokens.WithLabelValues(j.Agent).Add(float64(max(0, s.Tokens)))
	m.cost.WithLabelValues(j.Agent).Add(float64(max(0, s.Cost)) / 1e9)
	m.modelCalls.WithLabelValues(j.Agent).Add(float64(max(0, s.ModelCalls)))
	m.toolCalls.WithLabelValues(j.Agent).Add(float64(max(0, s.ToolCalls)))
}

// snapshot collects the values that are read at each request.
type snapshot struct{ opts MetricsOptions }

var (
	buildDesc     = prometheus.NewDesc("troupe_build_info", "The program; always 1.", []string{"version", "commit", "go"}, nil)
	asksDesc      = prometheus.NewDesc("troupe_questions", "Open questions in the store, by kind.", []string{"kind"}, nil)
	askAgeDesc    = prometheus.NewDesc("troupe_questions_oldest_age_seconds", "For how long the oldest open question is open; 0 without one.", nil, nil)
	jobAgeDesc    = prometheus.NewDesc("troupe_jobs_queued_oldest_age_seconds", "For how long the queued job that is due the longest is due; 0 without one.", nil, nil)
	parkedDesc    = prometheus.NewDesc("troupe_jobs_parked", "Jobs in the store that wait without a worker.", nil, nil)
	successDesc   = prometheus.NewDesc("troupe_schedule_last_success_timestamp_seconds", "When the last job of a schedule that is done ended; when the schedule was made, if there is none. Paused schedules are left out.", []string{"schedule"}, nil)
	sizeDesc      = prometheus.NewDesc("troupe_store_bytes", "Size of the file of the store with its log.", nil, nil)
	freeDesc      = prometheus.NewDesc("troupe_store_free_bytes", "Room that the disk of the store has.", nil, nil)
	jobsDesc      = prometheus.NewDesc("troupe_jobs", "Jobs in the store; queued ones are the queue's depth.", []string{"state"}, nil)
	runningDesc   = prometheus.NewDesc("troupe_worker_jobs", "Jobs that this worker has.", []string{"state"}, nil)
	maxParkedDesc = prometheus.NewDesc("troupe_worker_max_parked_jobs", "With as many waiting jobs this worker claims no more.", nil, nil)
	actorsDesc    = prometheus.NewDesc("troupe_actors", "Live actors.", []string{"kind"}, nil)
	spawnedDesc   = prometheus.NewDesc("troupe_actors_spawned_total", "Actors started.", []string{"kind"}, nil)
	failedDesc    = prometheus.NewDesc("troupe_actors_failed_total", "Failures of actors.", []string{"kind"}, nil)
	restartedDesc = prometheus.NewDesc("troupe_actors_restarted_total", "Restarts of actors.", []string{"kind"}, nil)
	tasksDesc     = prometheus.NewDesc("troupe_tasks", "Running tasks of actors.", nil, nil)
	droppedDesc   = prometheus.NewDesc("troupe_messages_dropped_total", "Messages to actors that had stopped.", nil, nil)
	instancesDesc = prometheus.NewDesc("troupe_server_instances", "Processes of an MCP server that its calls are shared out to.", []string{"server"}, nil)
	stalledDesc   = prometheus.NewDesc("troupe_runs_stalled", "Runs that wait for the store to take their events.", nil, nil)
	circuitDesc   = prometheus.NewDesc("troupe_provider_circuit", "Whether a provider of models is away: 0 it works, 1 its circuit is open or it refuses the key, 0.5 the next request tries.", []string{"provider"}, nil)
	errorsDesc    = prometheus.NewDesc("troupe_model_errors_total", "Requests to models that have failed, each attempt.", []string{"provider", "class"}, nil)
	waitingDesc   = prometheus.NewDesc("troupe_server_waiting_calls", "Calls that wait for an instance of an MCP server.", []string{"server"}, nil)
	clientsDesc   = prometheus.NewDesc("troupe_serve_clients", "Clients that are served.", nil, nil)
	storeDesc     = prometheus.NewDesc("troupe_store_up", "Whether the store answers and takes writes.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (s *snapshot) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{buildDesc, asksDesc, askAgeDesc, jobAgeDesc, parkedDesc, successDesc, sizeDesc, freeDesc, jobsDesc, runningDesc, maxParkedDesc, actorsDesc, spawnedDesc, failedDesc, restartedDesc, tasksDesc, droppedDesc, storeDesc, instancesDesc, waitingDesc, stalledDesc, circuitDesc, errorsDesc, clientsDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *snapshot) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	gauge(buildDesc, 1, s.opts.Version, s.opts.Commit, runtime.Version())
	up := 1.0
	if s.stored(ctx, gauge) != nil || s.opts.Probe.Check(ctx) != nil {
		up = 0
	}
	gauge(storeDesc, up)
	if s.opts.Now != nil {
		n := s.opts.Now()
		gauge(runningDesc, float64(n.Running), "running")
		gauge(runningDesc, float64(n.Waiting), "waiting")
		gauge(runningDesc, float64(n.Aside), "aside")
		gauge(maxParkedDesc, float64(n.MaxWaiting))
	}
	if s.opts.Clients != nil {
		gauge(clientsDesc, float64(s.opts.Clients()))
	}
	if s.opts.Stalled != nil {
		gauge(stalledDesc, float64(s.opts.Stalled()))
	}
	if s.opts.Servers != nil {
		for _, srv := range s.opts.Servers() {
			gauge(instancesDesc, float64(srv.Instances), srv.Name)
			gauge(waitingDesc, float64(srv.Waiting), srv.Name)
		}
	}
	if s.opts.Providers != nil {
		for i, p := range s.opts.Providers() {
			if i == maxProviders {
				break
			}
			name := clip.Valid(p.Name)
			gauge(circuitDesc, p.Metric(), name)
			for class, n := range p.Errors {
				counter(errorsDesc, float64(n), name, class)
			}
		}
	}
	census := s.opts.System.Census()
	tasks := 0
	for _, n := range census.Tasks {
		tasks += n
	}
	gauge(tasksDesc, float64(tasks))
	counter(droppedDesc, float64(census.Dropped))
	for kind, c := range census.Actors {
		gauge(actorsDesc, float64(c.Live), kind.String())
		counter(spawnedDesc, float64(c.Spawned), kind.String())
		counter(failedDesc, float64(c.Failed), kind.String())
		counter(restartedDesc, float64(c.Restarted), kind.String())
	}
}

// stored collects what is in the store, or nothing of it that cannot be read.
func (s *snapshot) stored(ctx context.Context, gauge func(d *prometheus.Desc, v float64, labels ...string)) error {
	counts, err := s.opts.Store.JobCounts(ctx)
	if err != nil {
		return err
	}
	waits, err := s.opts.Store.Backlog(ctx)
	if err != nil {
		return err
	}
	schedules, err := s.opts.Store.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, state := range store.JobStates() {
		gauge(jobsDesc, float64(counts[state]), string(state))
	}
	gauge(parkedDesc, float64(waits.Parked))
	for kind, n := range waits.Asks {
		gauge(asksDesc, float64(n), clip.Valid(kind))
	}
	gauge(askAgeDesc, age(waits.OldestAsk))
	gauge(jobAgeDesc, age(waits.OldestJob))
	for i := range schedules {
		at := schedules[i].Created
		if done := waits.Succeeded[schedules[i].Name]; !done.IsZero() {
			at = done
		}
		if !schedules[i].Paused {
			gauge(successDesc, float64(at.UnixMilli())/1e3, schedules[i].Name)
		}
	}
	if file, ok := s.opts.Store.(measured); ok {
		if size, free, err := file.Space(); err == nil {
			gauge(sizeDesc, float64(size))
			gauge(freeDesc, float64(free))
		}
	}
	return nil
}

// age is how long ago a time was, in seconds; 0 for none, and for one that the clock has not reached.
func age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, time.Since(t).Seconds())
}
