package setup

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// collector takes OTLP over HTTP.
type collector struct {
	mu    sync.Mutex
	paths []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.paths, r.URL.Path) {
		c.paths = append(c.paths, r.URL.Path)
	}
	slices.Sort(c.paths)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func clearOTel(t *testing.T) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		t.Setenv(name, "")
	}
}

// What is told goes to where the environment says, else the configuration, else nowhere.
func TestTelemetry(t *testing.T) {
	both := []string{"/v1/metrics", "/v1/traces"}
	for _, tt := range []struct {
		name string
		env  map[string]string // URL stands for the collector's
		file bool              // the configuration names the collector
		want []string          // nil: nothing is told
	}{
		{name: "nothing is said"},
		{name: "the environment", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, want: both},
		{name: "the configuration", file: true, want: both},
		{name: "the environment comes first", file: true, env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/mine"}, want: []string{"/mine", "/v1/metrics"}},
		{name: "no metrics", file: true, env: map[string]string{"OTEL_METRICS_EXPORTER": "none"}, want: []string{"/v1/traces"}},
		{name: "switched off", file: true, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clearOTel(t)
			c := new(collector)
			srv := httptest.NewServer(c)
			defer srv.Close()
			for name, value := range tt.env {
				if len(value) >= 3 && value[:3] == "URL" {
					value = srv.URL + value[3:]
				}
				t.Setenv(name, value)
			}
			s := &env.Settings{Config: new(config.Config)}
			if tt.file {
				s.Telemetry.Endpoint = srv.URL
			}
			o, err := openTelemetry(t.Context(), s, false, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if o == nil {
				if tt.want != nil {
					t.Fatalf("nothing is told, want %q", tt.want)
				}
				return
			}
			_, end := o.Run(t.Context(), &agent.RunTrace{ID: "r", Agent: "a", Model: "m/m"})
			end(nil, nil)
			if _, err := o.Middleware(t.Context(), incoming(), nothing); err != nil {
				t.Fatal(err)
			}
			if err := o.close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.paths, tt.want) {
				t.Errorf("told at %q, want %q", c.paths, tt.want)
			}
		})
	}
}

// What cannot be told is said at once.
func TestTelemetryRefuses(t *testing.T) {
	for name, value := range map[string]string{"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"} {
		t.Run(name, func(t *testing.T) {
			clearOTel(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			o, err := openTelemetry(t.Context(), &env.Settings{Config: new(config.Config)}, false, slog.New(slog.DiscardHandler))
			if o != nil || env.ExitCode(err) != env.ExitUsage {
				t.Errorf("openTelemetry with %s=%s: got %v, %v, want a usage error", name, value, o, err)
			}
		})
	}
}

func incoming() *mcpserver.Incoming { return &mcpserver.Incoming{Method: mcp.MethodPing} }

func nothing(context.Context) (json.RawMessage, error) { return json.RawMessage("{}"), nil }
