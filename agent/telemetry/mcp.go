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

	"github.com/troupe-dev/troupe/internal/clip"
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

// about are the attributes that spans and metrics of a request share; each has few values.
func about(method, name string, version mcp.Version) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("mcp.method.name", method)}
	if version != "" {
		attrs = append(attrs, attribute.String("mcp.protocol.version", string(version)))
	}
	switch method {
	case mcp.MethodCallTool:
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String(toolName, clip.Text(name, maxName)))
	case mcp.MethodGetPrompt:
		attrs = append(attrs, attribute.String(promptName, clip.Text(name, maxName)))
	}
	return attrs
}

// spanName has the names of tools and prompts, of which there are few.
func spanName(method, name string) string {
	if name != "" && (method == mcp.MethodCallTool || method == mcp.MethodGetPrompt) {
		return method + " " + clip.Text(name, maxName)
	}
	return method
}

// outcome marks a failed span, and returns its error.type, empty for none.
func outcome(span trace.Span, toolFailed bool, err error, words func(error) string) string {
	switch {
	case err != nil:
		kind := errorType(err)
		if wire, ok := errors.AsType[*mcp.Error](err); ok {
			span.SetAttributes(attribute.Int64("rpc.response.status_code", wire.Code))
		}
		fail(span, kind, words(err))
		return kind
	case toolFailed:
		fail(span, toolError, "the tool failed")
		return toolError
	}
	return ""
}

// failed reports whether a tool result has isError.
func failed(result json.RawMessage) bool {
	var res struct {
		IsError bool `json:"isError"`
	}
	return jsonx.Unmarshal(result, &res) == nil && res.IsError
}

// words returns the text of an error if content is recorded: it may quote secrets.
func (t *Telemetry) words(err error) string {
	if t.content {
		return clip.Text(err.Error(), maxContent)
	}
	return ""
}

// asJSON is an attribute with the JSON text of v, cut to the bound of exporters.
func asJSON(key string, v any) attribute.KeyValue {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return attribute.String(key, "")
	}
	return attribute.String(key, clip.Text(string(raw), maxContent))
}

// Bounds of attributes, in bytes: of content, and of a name, which a client may choose.
const (
	maxContent = 64<<10 - len("…") // the mark of a cut comes on top
	maxName    = 128
)

// Attributes whose values come from a request.
const (
	toolName   = "gen_ai.tool.name"
	promptName = "gen_ai.prompt.name"
)
