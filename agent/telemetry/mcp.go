package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Request is a [mcpclient.TraceFunc]: a client span for each request to a server, except for
// the tool call of a run, which has a span already.
func (t *Telemetry) Request(ctx context.Context, op *mcpclient.Operation) (context.Context, func(toolFailed bool, err error)) {
	begun := time.Now()
	attrs := append(about(op.Method, op.Name, op.Version), attribute.String("network.transport", op.Transport))
	if op.Address != "" {
		attrs = append(attrs, attribute.String("server.address", op.Address))
	}
	span, called := ctx.Value(toolSpan{}).(trace.Span)
	if called = called && op.Method == mcp.MethodCallTool; called {
		span.SetName(spanName(op.Method, op.Name))
		ctx = context.WithValue(ctx, toolSpan{}, nil)
	} else {
		ctx, span = t.tracer.Start(ctx, spanName(op.Method, op.Name), trace.WithSpanKind(trace.SpanKindClient))
	}
	span.SetAttributes(attrs...)
	span.SetAttributes(attribute.String("troupe.server.name", op.Server))
	if op.Method == mcp.MethodReadResource || op.Method == mcp.MethodSubscribe {
		span.SetAttributes(attribute.String("mcp.resource.uri", op.Name))
	}
	return ctx, func(toolFailed bool, err error) {
		if kind := outcome(span, toolFailed, err, t.words); kind != "" {
			attrs = append(attrs, attribute.String("error.type", kind))
		}
		if !called {
			span.End()
		}
		t.clientOps.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attrs...))
	}
}

// Middleware is a [mcpserver.Middleware]: a span of the server for each request, below the
// one whose trace the request carries.
func (t *Telemetry) Middleware(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
	begun := time.Now()
	attrs := about(in.Method, in.Name, in.Version)
	ctx, span := t.tracer.Start(t.extract(ctx, in.Meta), spanName(in.Method, in.Name), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	defer span.End()
	span.SetAttributes(attribute.String("jsonrpc.request.id", in.ID.String()))
	if in.Method == mcp.MethodReadResource || in.Method == mcp.MethodSubscribe {
		span.SetAttributes(attribute.String("mcp.resource.uri", in.Name))
	}
	result, err := next(ctx)
	if kind := outcome(span, err == nil && in.Method == mcp.MethodCallTool && failed(result), err, t.words); kind != "" {
		attrs = append(attrs, attribute.String("error.type", kind))
	}
	if errors.Is(err, mcp.ErrInvalidParams) { // the name may be unknown: clients must not choose the values
		attrs = slices.DeleteFunc(slices.Clone(attrs), func(kv attribute.KeyValue) bool { return kv.Key == toolName || kv.Key == promptName })
	}
	t.serverOps.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(attrs...))
	return result, err
}

// extract puts the trace of a request into the context. It ignores a trace that is not in the form of
// the W3C.
func (t *Telemetry) extract(ctx context.Context, meta json.RawMessage) context.Context {
	var carried struct {
		Parent  string `json:"traceparent"`
		State   string `json:"tracestate"`
		Baggage string `json:"baggage"`
	}
	if len(meta) == 0 || jsonx.Unmarshal(meta, &carried) != nil {
		return ctx
	}
	return t.propagator.Extract(ctx, propagation.MapCarrier{
		mcp.MetaTraceParent: carried.Parent, mcp.MetaTraceState: carried.State, mcp.MetaBaggage: carried.Baggage})
}
