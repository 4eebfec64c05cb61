package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/troupe-dev/troupe/agent/telemetry"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

// exportTime bounds how long the end of the program waits for what is still to be sent.
const exportTime = 5 * time.Second

// exporting is telemetry with the exporters that send it.
type exporting struct {
	*telemetry.Telemetry
	close func(context.Context) error
}

// openTelemetry starts what OTEL_* and the configuration ask for; nil where they ask for
// nothing. The exporters read the other variables (headers, timeouts, certificates,
// sampling) themselves. Dry is [env.Env].DryRun.
func openTelemetry(ctx context.Context, s *env.Settings, dry bool, log *slog.Logger) (*exporting, error) {
	if err := s.Resolve("telemetry", os.Getenv); err != nil {
		return nil, env.Usagef("%w", err)
	}
	if on, err := strconv.ParseBool(cmp.Or(os.Getenv("OTEL_SDK_DISABLED"), "false")); err == nil && on {
		return nil, nil
	}
	var base url.URL
	if own := s.Telemetry.Endpoint; own != "" {
		u, err := url.Parse(own)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, env.Usagef("%w", s.Fault("telemetry.endpoint", fmt.Errorf("%q: want a URL such as http://localhost:4318", own)))
		}
		base = *u
	}
	traces, err := wanted("TRACES", base.Host != "")
	if err != nil {
		return nil, err
	}
	metrics, err := wanted("METRICS", base.Host != "")
	if err != nil || dry || !traces && !metrics {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry could not be sent", "error", err) }))
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", "troupe")), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, env.Usagef("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var o telemetry.Options
	var closers []func(context.Context) error
	if traces {
		var opts []otlptracehttp.Option
		if fromFile("TRACES", &base) {
			opts = append(opts, otlptracehttp.WithEndpointURL(base.JoinPath("v1/traces").String()))
		}
		exporter, err := otlptracehttp.New(ctx, opts...)
		if err != nil {
			return nil, env.Usagef("telemetry: %w", err)
		}
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
		o.TracerProvider, closers = tp, append(closers, tp.Shutdown)
	}
	if metrics {
		var opts []otlpmetrichttp.Option
		if fromFile("METRICS", &base) {
			opts = append(opts, otlpmetrichttp.WithEndpointURL(base.JoinPath("v1/metrics").String()))
		}
		exporter, err := otlpmetrichttp.New(ctx, opts...)
		if err != nil {
			return nil, env.Usagef("telemetry: %w", err)
		}
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)), sdkmetric.WithResource(about))
		o.MeterProvider, closers = mp, append(closers, mp.Shutdown)
	}
	said, _ := strconv.ParseBool(os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"))
	o.Content = said || s.Telemetry.Content
	t, err := telemetry.New(&o)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return &exporting{t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, exportTime)
		defer cancel()
		var errs []error
		for _, end := range closers {
			errs = append(errs, end(ctx))
		}
		return errors.Join(errs...)
	}}, nil
}

// wanted reports whether a signal, "TRACES" or "METRICS", is to be sent: where an endpoint
// is set, and OTEL_<signal>_EXPORTER does not say none.
func wanted(signal string, configured bool) (bool, error) {
	switch exporter := os.Getenv("OTEL_" + signal + "_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "", "otlp":
		protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
		set := exporter == "otlp" || configured || inEnv(signal)
		if set && protocol != "http/protobuf" {
			return false, env.Usagef("OTEL_EXPORTER_OTLP_PROTOCOL=%s: only http/protobuf is spoken here (port 4318 as a rule)", protocol)
		}
		return set, nil
	default:
		return false, env.Usagef("OTEL_%s_EXPORTER=%s: want otlp or none", signal, exporter)
	}
}

func inEnv(signal string) bool {
	return strings.TrimSpace(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT")) != ""
}

// fromFile reports whether the endpoint of the configuration counts for a signal: where the
// environment names none.
func fromFile(signal string, base *url.URL) bool { return base.Host != "" && !inEnv(signal) }
