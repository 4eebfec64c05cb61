package telemetry_test

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/telemetry"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

func Example() {
	// Providers of the OpenTelemetry SDK, with the exporters of the program.
	var (
		tp trace.TracerProvider
		mp metric.MeterProvider
	)
	_ = tell(context.Background(), tp, mp, nil, nil)
}

func tell(ctx context.Context, tp trace.TracerProvider, mp metric.MeterProvider, model llm.Model, servers []mcpclient.Server) error {
	t, err := telemetry.New(&telemetry.Options{TracerProvider: tp, MeterProvider: mp})
	if err != nil {
		return err
	}
	opts := &agent.Options{Model: model, Servers: servers}
	t.Instrument(opts)
	rt, err := agent.Open(ctx, opts)
	if err != nil {
		return err
	}
	defer rt.Close()

	s, err := mcpserver.New(mcp.Implementation{Name: "booking", Version: "1.0.0"},
		&mcpserver.Options{Middleware: []mcpserver.Middleware{t.Middleware}})
	if err != nil {
		return err
	}
	return s.Close()
}
