package jobapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/bearer"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// IntakeOptions are the options of an [Intake]. Jobs and Token are required.
type IntakeOptions struct {
	Jobs store.Jobs
	// Token is the bearer token of clients. It is never empty: a client that may queue a job
	// may do all that the agents may.
	Token string
	// Warning returns what the client is told of a job that is queued all the same, such as that no
	// worker is known that has its agent; "" is nothing. Nil warns of nothing.
	Warning func(context.Context, *store.Job) string
	// Guard checks the URLs of webhooks. Nil refuses jobs with one.
	Guard *netguard.Guard
	// Added is called after a job was queued, and Cancelled after the cancellation of one was
	// requested. They must not block. Nil does nothing.
	Added, Cancelled func(store.Job)
	// Ready returns why the worker takes no jobs; nil, or a nil error, means that it does.
	Ready func(ctx context.Context) error
	// Providers returns how the providers of models stand. Nil says nothing of them.
	Providers func() []Provider
	// Metrics answers GET /metrics. Nil answers 404.
	Metrics http.Handler
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

// Intake takes jobs over HTTP:
//
//	POST   /v1/jobs        queue a [Request]; the header Idempotency-Key is its key
//	GET    /v1/jobs        list jobs: state (repeat), agent, batch, schedule, limit, after
//	GET    /v1/jobs/{id}   a [Job]; wait=30s waits until it has ended, at most a minute
//	DELETE /v1/jobs/{id}   cancel it
//	GET    /healthz        200 while the process lives
//	GET    /readyz         200 while it takes jobs; it names the providers of models that are away
//	GET    /metrics        Prometheus' text
//
// All but /healthz and /readyz need the token. Errors are [Problem]s.
type Intake struct {
	opts  IntakeOptions
	token bearer.Token
	http.Handler
}

// NewIntake returns an Intake. Without a token it fails.
func NewIntake(o IntakeOptions) (*Intake, error) {
	if err := bearer.Check(o.Token); err != nil {
		return nil, fmt.Errorf("the token of the HTTP intake: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	in := &Intake{opts: o, token: bearer.New(o.Token)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET /readyz", readiness(o.Ready, o.Providers))
	mux.HandleFunc("POST /v1/jobs", in.authorized(in.add))
	mux.HandleFunc("GET /v1/jobs", in.authorized(in.list))
	mux.HandleFunc("GET /v1/jobs/{id}", in.authorized(in.show))
	mux.HandleFunc("DELETE /v1/jobs/{id}", in.authorized(in.cancel))
	mux.HandleFunc("GET /metrics", in.authorized(func(w http.ResponseWriter, r *http.Request) {
		if o.Metrics == nil {
			problem(w, http.StatusNotFound, "there are no metrics here")
			return
		}
		o.Metrics.ServeHTTP(w, r)
	}))
	mux.HandleFunc("/", in.other)
	// Pages in a browser are refused, with or without the token (SECA-02).
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "pages of other origins may not do this")
	}))
	in.Handler = pages.Handler(mux)
	return in, nil
}

// Bounds of the intake.
const (
	maxWait  = time.Minute // of GET ?wait
	lookWait = 200 * time.Millisecond
	maxList  = 500
)

// authorized passes on requests with the token. Every wrong token takes the same time.
func (in *Intake) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !in.token.In(r) {
			unauthorized(w)
			return
		}
		next(w, r)
	}
}

// other answers unknown paths and methods. It needs no token, and reveals nothing.
func (in *Intake) other(w http.ResponseWriter, r *http.Request) {
	allow := map[string]string{"/v1/jobs": "GET, POST", "/healthz": "GET", "/readyz": "GET", "/metrics": "GET"}[r.URL.Path]
	if strings.HasPrefix(r.URL.Path, "/v1/jobs/") {
		allow = "GET, DELETE"
	}
	if allow != "" {
		w.Header().Set("Allow", allow)
		problem(w, http.StatusMethodNotAllowed, "want "+allow)
		return
	}
	problem(w, http.StatusNotFound, "there is no such path; jobs are at /v1/jobs")
}

// Readiness is the answer of GET /readyz.
type Readiness struct {
	Status string `json:"status"` // "ready"
	// Away are the providers of models that do not work. Jobs are taken all the same: those that
	// need one wait in the queue.
	Away []Away `json:"away,omitempty"`
}

// Away is a provider of models that does not work. It has no text of an error: clients need no token
// to read it.
type Away struct {
	Provider string    `json:"provider"`
	Class    string    `json:"class"` // why, see [llm.Class]
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // it is tried again; absent means with the next request
}

// add queues a job.
func (in *Intake) add(w http.ResponseWriter, r *http.Request) {
	req, ok := in.read(w, r)
	if !ok {
		return
	}
	j, err := req.Job(in.opts.Guard)
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	j, err = in.opts.Jobs.AddJob(r.Context(), j)
	switch {
	case errors.Is(err, store.ErrRepeated):
		in.answer(w, http.StatusOK, j)
		return
	case errors.Is(err, store.ErrExists):
		existing := Show(j.Brief())
		writeProblem(w, Problem{Status: http.StatusConflict, Job: &existing,
			Detail: "a job of that key or ID is there already, and it is another one"})
		return
	case err != nil:
		in.failed(w, err)
		return
	}
	if in.opts.Added != nil {
		in.opts.Added(j)
	}
	shown := Show(j)
	if in.opts.Warning != nil {
		if shown.Warning = in.opts.Warning(r.Context(), &j); shown.Warning != "" {
			in.opts.Logger.Warn("a job was queued", "job", j.ID, "agent", j.Agent, "warning", shown.Warning)
		}
	}
	answerJob(w, http.StatusCreated, shown)
}

// read reads the body of a job; if that fails it answers the request.
func (in *Intake) read(w http.ResponseWriter, r *http.Request) (Request, bool) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		problem(w, http.StatusUnsupportedMediaType, "want Content-Type: application/json")
		return Request{}, false
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		problem(w, http.StatusUnsupportedMediaType, "want a body that is not compressed")
		return Request{}, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxRequest))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the job is longer than %d bytes", tooLarge.Limit))
		return Request{}, false
	}
	if err != nil {
		problem(w, http.StatusBadRequest, "the body cannot be read")
		return Request{}, false
	}
	req, err := ParseRequest(body)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return Request{}, false
	}
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) > 1:
		problem(w, http.StatusBadRequest, "there are several headers Idempotency-Key")
		return Request{}, false
	case len(keys) == 1 && req.Key != "" && req.Key != unquote(keys[0]):
		problem(w, http.StatusBadRequest, "the header Idempotency-Key and the member key differ")
		return Request{}, false
	case len(keys) == 1:
		if req.Key = unquote(keys[0]); req.Key == "" {
			problem(w, http.StatusBadRequest, "the header Idempotency-Key is empty")
			return Request{}, false
		}
	}
	return req, true
}

// unquote takes the quotes off a key: as a structured field it has them.
func unquote(key string) string {
	if len(key) >= 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		return key[1 : len(key)-1]
	}
	return key
}

// list answers a page of jobs without their prompts and results.
func (in *Intake) list(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := store.JobQuery{Agent: v.Get("agent"), Batch: v.Get("batch"), Schedule: v.Get("schedule"), After: v.Get("after"), Brief: true, Limit: 100}
	for _, s := range v["state"] {
		q.States = append(q.States, store.JobState(s))
	}
	if limit := v.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > maxList {
			problem(w, http.StatusBadRequest, fmt.Sprintf("limit: want a number from 1 to %d", maxList))
			return
		}
		q.Limit = n
	}
	jobs, err := in.opts.Jobs.Jobs(r.Context(), q)
	if err != nil {
		in.failed(w, err)
		return
	}
	page := Page{Jobs: make([]Job, len(jobs))}
	for i, j := range jobs {
		page.Jobs[i] = Show(j.Brief())
	}
	if len(jobs) == q.Limit {
		page.Next = jobs[len(jobs)-1].Cursor()
	}
	writeJSON(w, http.StatusOK, "application/json", page)
}

// Page is the answer of GET /v1/jobs.
type Page struct {
	Jobs []Job  `json:"jobs"`           // the newest first
	Next string `json:"next,omitempty"` // for the parameter after, where there may be more
}

// show answers a job; with the parameter wait it first waits for its end.
func (in *Intake) show(w http.ResponseWriter, r *http.Request) {
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			problem(w, http.StatusBadRequest, "wait: want a duration, such as 30s")
			return
		}
		wait = min(d, maxWait)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	for {
		j, err := in.opts.Jobs.Job(r.Context(), r.PathValue("id"))
		if err != nil {
			in.failed(w, err)
			return
		}
		if j.State.Ended() || ctx.Err() != nil {
			in.answer(w, http.StatusOK, j)
			return
		}
		_ = pause.For(ctx, lookWait)
	}
}

// cancel cancels a job. The worker of one that is at work cancels it soon.
func (in *Intake) cancel(w http.ResponseWriter, r *http.Request) {
	j, err := in.opts.Jobs.CancelJob(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, store.ErrFinished) && j.State == store.JobCancelled:
		in.answer(w, http.StatusOK, j)
	case errors.Is(err, store.ErrFinished):
		shown := Show(j.Brief())
		writeProblem(w, Problem{Status: http.StatusConflict, Detail: "the job has ended: it is " + string(j.State), Job: &shown})
	case err != nil:
		in.failed(w, err)
	default:
		if in.opts.Cancelled != nil {
			in.opts.Cancelled(j)
		}
		status := http.StatusOK
		if j.Cancelling {
			status = http.StatusAccepted
		}
		in.answer(w, status, j)
	}
}

func (in *Intake) answer(w http.ResponseWriter, status int, j store.Job) {
	answerJob(w, status, Show(j))
}

func answerJob(w http.ResponseWriter, status int, j Job) {
	w.Header().Set("Location", "/v1/jobs/"+j.ID)
	writeJSON(w, status, "application/json", j)
}

// Starting answers in place of an [Intake] until a command has started: /healthz that it lives, /readyz why
// it takes no jobs yet, and all else that it is to be asked later.
func Starting(command string, why func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		text := "the " + command + " is starting"
		if r.URL.Path == "/readyz" {
			text = why(r.Context()).Error()
		}
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, text)
	})
	return mux
}

func healthy(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": "ok"})
}

// failed answers an error of the store.
func (in *Intake) failed(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, "there is no such job")
	case errors.Is(err, context.Canceled): // the client has gone
		problem(w, http.StatusServiceUnavailable, "the request was cancelled")
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge):
		problem(w, http.StatusUnprocessableEntity, strings.TrimPrefix(err.Error(), "store: "))
	case errors.Is(err, store.ErrFull):
		problem(w, http.StatusInsufficientStorage, "the store is full")
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrClosed):
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusServiceUnavailable, "the store is busy, or being closed")
	default:
		in.opts.Logger.Error("the intake has failed", "error", err)
		problem(w, http.StatusInternalServerError, "the store has failed; the worker's log says why")
	}
}
