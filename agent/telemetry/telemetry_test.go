package telemetry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/telemetry"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

type greeting struct {
	Name string `json:"name"`
}

// recorder is where a test looks for what was told.
type recorder struct {
	*tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	*telemetry.Telemetry
}

func record(t *testing.T, content bool) *recorder {
	t.Helper()
	r := &recorder{SpanRecorder: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.SpanRecorder))
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	var err error
	if r.Telemetry, err = telemetry.New(&telemetry.Options{TracerProvider: tp, MeterProvider: mp, Content: content}); err != nil {
		t.Fatal(err)
	}
	return r
}

// span returns the only span of that name.
func (r *recorder) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found sdktrace.ReadOnlySpan
	var names []string
	for _, s := range r.Ended() {
		names = append(names, s.Name())
		if s.Name() == name {
			if found != nil {
				t.Fatalf("span %q: got two of %q", name, names)
			}
			found = s
		}
	}
	if found == nil {
		t.Fatalf("span %q: got %q", name, names)
	}
	return found
}

func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, kv := range s.Attributes() {
		if kv.Key == attribute.Key(key) {
			return kv.Value.String()
		}
	}
	return ""
}

// metrics are the instruments that have recorded something, with their attributes.
func (r *recorder) metrics(t *testing.T) map[string][]attribute.Set {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]attribute.Set)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					found[m.Name] = append(found[m.Name], p.Attributes)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					found[m.Name] = append(found[m.Name], p.Attributes)
				}
			}
		}
	}
	return found
}

// runGreeter runs an agent that calls a tool of a server and a function of the program.
func runGreeter(t *testing.T, r *recorder, protocol string, ctx context.Context) {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "greeter", Version: "1"}, &mcpserver.Options{Middleware: []mcpserver.Middleware{r.Middleware}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	err = mcpserver.AddFunc(s, &mcp.Tool{Name: "greet", Description: "Greets."}, func(ctx context.Context, in greeting) (string, error) {
		if !trace.SpanFromContext(ctx).SpanContext().IsValid() {
			return "", errors.New("there is no span")
		}
		if in.Name == "" {
			return "", errors.New("nobody to greet")
		}
		return "Hello, " + in.Name, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	server := mcpclient.InProcess("greeter", s)
	server.Protocol = protocol
	o := &agent.Options{
		Model: llmtest.Script(
			llmtest.Join(llmtest.Call("greeter__greet", `{"name":"Ada"}`), llmtest.Call("count", `{}`)).Usage(100, 10),
			llmtest.Call("greeter__greet", `{"name":""}`).Usage(110, 11),
			llmtest.Say("Done: secret-answer.").Usage(120, 12)),
		Servers: []mcpclient.Server{server},
		Tools:   []agent.Tool{agent.Func("count", "Counts.", func(context.Context, struct{}) (int, error) { return 3, nil })},
		Approve: agent.NeverAsk,
	}
	r.Instrument(o)
	rt, err := agent.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := rt.Agent("host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(ctx, "Greet Ada with the secret-word.", nil); err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
}

// A trace leads from the caller through the run, its turns and its calls into the server,
// in both eras (META-04), and a tool call is one span, not two.
func TestTrace(t *testing.T) {
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(protocol, func(t *testing.T) {
			r := record(t, false)
			tp := sdktrace.NewTracerProvider()
			ctx, caller := tp.Tracer("test").Start(t.Context(), "caller")
			runGreeter(t, r, protocol, ctx)

			run := r.span(t, "invoke_agent host")
			if run.Parent().SpanID() != caller.SpanContext().SpanID() || attr(run, "gen_ai.usage.input_tokens") != "330" {
				t.Errorf("the run: got parent %s and %v, want %s", run.Parent().SpanID(), run.Attributes(), caller.SpanContext().SpanID())
			}
			chats, calls, served := 0, 0, 0
			client := make(map[trace.SpanID]bool)
			for _, s := range r.Ended() {
				if s.SpanContext().TraceID() != run.SpanContext().TraceID() && strings.HasPrefix(s.Name(), "tools/call") {
					t.Errorf("%s: got another trace than its run's", s.Name())
				}
				below := s.Parent().SpanID() == run.SpanContext().SpanID()
				switch {
				case strings.HasPrefix(s.Name(), "chat ") && below:
					chats++
				case s.Name() == "tools/call greet" && s.SpanKind() == trace.SpanKindClient && below:
					calls++
					client[s.SpanContext().SpanID()] = true
					if attr(s, "mcp.protocol.version") != protocol || attr(s, "network.transport") != "inproc" || attr(s, "gen_ai.operation.name") != "execute_tool" {
						t.Errorf("%s: got %v", s.Name(), s.Attributes())
					}
				}
			}
			for _, s := range r.Ended() {
				if s.Name() == "tools/call greet" && s.SpanKind() == trace.SpanKindServer && client[s.Parent().SpanID()] {
					served++
				}
			}
			if chats != 3 || calls != 2 || served != 2 {
				t.Errorf("got %d turns, %d calls and %d of them in the server, want 3, 2 and 2", chats, calls, served)
			}
			if s := r.span(t, "execute_tool count"); s.SpanKind() != trace.SpanKindInternal || s.Status().Code == codes.Error {
				t.Errorf("%s: got %v, %v", s.Name(), s.SpanKind(), s.Status())
			}
		})
	}
}

// Nothing that people or models say is told unless it is asked for.
func TestContent(t *testing.T) {
	for _, content := range []bool{false, true} {
		r := record(t, content)
		runGreeter(t, r, "2026-07-28", t.Context())
		var said []string
		for _, s := range r.Ended() {
			for _, kv := range s.Attributes() {
				if v := kv.Value.String(); strings.Contains(v, "secret-") || strings.Contains(v, "Ada") {
					said = append(said, string(kv.Key))
				}
			}
			if strings.Contains(s.Status().Description, "Ada") {
				t.Errorf("%s: got the status %q", s.Name(), s.Status().Description)
			}
		}
		if (len(said) > 0) != content {
			t.Errorf("with Content %t what was said is in %q", content, said)
		}
		for _, want := range []string{"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"} {
			if content && !slices.Contains(said, want) {
				t.Errorf("with Content %s is missing in %q", want, said)
			}
		}
	}
}

// A tool that ran and failed is an error of its spans and metrics, and not of its run.
func TestToolError(t *testing.T) {
	r := record(t, false)
	runGreeter(t, r, "2025-11-25", t.Context())
	failed := 0
	for _, s := range r.Ended() {
		if attr(s, "error.type") == "tool_error" && s.Status().Code == codes.Error {
			failed++
		}
	}
	if failed != 2 { // of the client and of the server
		t.Errorf("got %d spans of failed tools, want 2", failed)
	}
	if s := r.span(t, "invoke_agent host"); s.Status().Code == codes.Error {
		t.Errorf("the run: got %v", s.Status())
	}
	m := r.metrics(t)
	for name, attrs := range map[string][]string{
		"gen_ai.client.token.usage":        {"gen_ai.token.type", "gen_ai.request.model", "gen_ai.provider.name", "gen_ai.operation.name"},
		"gen_ai.client.operation.duration": {"gen_ai.request.model", "gen_ai.operation.name"},
		"mcp.client.operation.duration":    {"mcp.method.name", "mcp.protocol.version"},
		"mcp.server.operation.duration":    {"mcp.method.name"},
	} {
		if len(m[name]) == 0 {
			t.Errorf("%s: got nothing", name)
			continue
		}
		for _, key := range attrs {
			if !m[name][0].HasValue(attribute.Key(key)) {
				t.Errorf("%s: got %v, want %s", name, m[name][0].Encoded(attribute.DefaultEncoder()), key)
			}
		}
	}
	toolErrors := 0
	for _, set := range m["mcp.client.operation.duration"] {
		if v, _ := set.Value("error.type"); v.AsString() == "tool_error" {
			toolErrors++
		}
	}
	if toolErrors != 1 {
		t.Errorf("mcp.client.operation.duration has %d series of failed tools, want 1", toolErrors)
	}
}

// A run that ends with an error says which kind, and every span ends.
func TestFailedRun(t *testing.T) {
	r := record(t, false)
	o := &agent.Options{Model: llmtest.Script(llmtest.Call("boom", `{}`), llmtest.Call("boom", `{}`)),
		Tools: []agent.Tool{agent.Func("boom", "Panics.", func(context.Context, struct{}) (string, error) { panic("boom") })}}
	r.Instrument(o)
	rt, err := agent.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	a, err := rt.Agent("host", &agent.Config{Limits: agent.Limits{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Run(t.Context(), "Go.", nil); err == nil {
		t.Fatal("the run has an answer, want its limit")
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if got := attr(r.span(t, "invoke_agent host"), "error.type"); got != "limit" {
		t.Errorf("error.type: got %q, want limit", got)
	}
	if begun, ended := len(r.Started()), len(r.Ended()); begun != ended {
		t.Errorf("%d spans have begun and %d ended", begun, ended)
	}
}
