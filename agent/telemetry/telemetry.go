// Package telemetry exports the work of agents, MCP clients and MCP servers to OpenTelemetry,
// by the conventions for generative AI and for MCP.
//
//	t, err := telemetry.New(&telemetry.Options{TracerProvider: tp, MeterProvider: mp})
//	opts := &agent.Options{…}
//	t.Instrument(opts)
//	rt, err := agent.Open(ctx, opts)
//
// A run is a span invoke_agent, below it there is one chat for each turn of the model
// and one for each tool call: tools/call of a server's tool, execute_tool of a
// function of the program. Requests to MCP servers carry the trace in their _meta
// and [Telemetry.Middleware] continues it in a server, so that one trace covers every agent
// and server of a job.
//
// Messages, and the arguments and results of tools, are recorded with [Options].Content only.
package telemetry

import (
	"cmp"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/troupe-dev/troupe/internal/clip"
)

// scope names the instrumentation.
const scope = "github.com/troupe-dev/troupe/agent/telemetry"

// Options are the destinations of telemetry; nil is the same as the zero value, which sends none.
type Options struct {
	// TracerProvider takes spans. Nil takes none; global providers are ignored.
	TracerProvider trace.TracerProvider
	// MeterProvider takes metrics. Nil takes none.
	MeterProvider metric.MeterProvider
	// Propagator writes the trace into requests and reads it from them. Nil is that of
	// the W3C: traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator
	// Content records messages, arguments and results too, which may hold secrets.
	Content bool
}

// Telemetry is an [agent.Tracer]. Make it with [New]. Its methods may be called from any
// goroutine.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	content    bool

	tokens    metric.Int64Histogram   // gen_ai.client.token.usage
	chats     metric.Float64Histogram // gen_ai.client.operation.duration
	clientOps metric.Float64Histogram // mcp.client.operation.duration
	serverOps metric.Float64Histogram // mcp.server.operation.duration
}

// The buckets that the conventions recommend.
var (
	seconds    = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
	tokenSteps = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
)

// New makes the instruments. The error is the provider's.
func New(opts *Options) (*Telemetry, error) {
	o := *cmp.Or(opts, new(Options))
	if o.TracerProvider == nil {
		o.TracerProvider = nooptrace.NewTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = noopmetric.NewMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope), propagator: o.Propagator, content: o.Content}
	m := o.MeterProvider.Meter(scope)
	var errs [4]error
	t.tokens, errs[0] = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"), tokenSteps,
		metric.WithDescription("Tokens of a request to a model, by gen_ai.token.type."))
	t.chats, errs[1] = m.Float64Histogram("gen_ai.client.operation.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long a turn of a model took, with all attempts."))
	t.clientOps, errs[2] = m.Float64Histogram("mcp.client.operation.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long a request to an MCP server took, with all attempts and questions."))
	t.serverOps, errs[3] = m.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long a request of an MCP client took."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("making the instruments: %w", err)
	}
	return t, nil
}

// words returns the text of an error if content is recorded: it may quote secrets.
func (t *Telemetry) words(err error) string {
	if t.content {
		return clip.Text(err.Error(), maxContent)
	}
	return ""
}
