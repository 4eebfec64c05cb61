package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Run implements [agent.Tracer]: a span invoke_agent.
func (t *Telemetry) Run(ctx context.Context, r *agent.RunTrace) (context.Context, func(*agent.Result, error)) {
	ctx, span := t.tracer.Start(ctx, "invoke_agent "+r.Agent, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", r.Agent),
		attribute.String("gen_ai.conversation.id", r.ID),
		attribute.String("gen_ai.provider.name", provider(r.Model)),
		attribute.String("gen_ai.request.model", own(r.Model)),
	))
	return ctx, func(res *agent.Result, err error) {
		defer span.End()
		if res != nil {
			span.SetAttributes(
				attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(res.StopReason)}),
				attribute.Int("gen_ai.usage.input_tokens", res.Usage.Input),
				attribute.Int("gen_ai.usage.output_tokens", res.Usage.Output),
			)
		}
		if err != nil {
			fail(span, errorType(err), t.words(err))
		}
	}
}

// Turn implements [agent.Tracer]: a span chat.
func (t *Telemetry) Turn(ctx context.Context, turn *agent.TurnTrace) (context.Context, func(*llm.Response, error)) {
	begun := time.Now()
	req := turn.Request
	base := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", provider(turn.Model)),
		attribute.String("gen_ai.request.model", own(turn.Model)),
	}
	ctx, span := t.tracer.Start(ctx, "chat "+own(turn.Model), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(base...))
	if req.MaxTokens > 0 {
		span.SetAttributes(attribute.Int("gen_ai.request.max_tokens", req.MaxTokens))
	}
	if req.Temperature != nil {
		span.SetAttributes(attribute.Float64("gen_ai.request.temperature", *req.Temperature))
	}
	if t.content {
		span.SetAttributes(asJSON("gen_ai.input.messages", withoutState(req.Messages)))
		if req.System != "" {
			span.SetAttributes(attribute.String("gen_ai.system_instructions", clip.Text(req.System, maxContent)))
		}
	}
	return ctx, func(res *llm.Response, err error) {
		defer span.End()
		if res != nil {
			base = append(base, attribute.String("gen_ai.response.model", res.Model))
			span.SetAttributes(
				attribute.String("gen_ai.response.model", res.Model),
				attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(res.Finish)}),
				attribute.Int("gen_ai.usage.input_tokens", res.Usage.Input),
				attribute.Int("gen_ai.usage.output_tokens", res.Usage.Output),
			)
			if t.content {
				span.SetAttributes(asJSON("gen_ai.output.messages", []llm.Message{{Role: llm.RoleAssistant, Content: res.Content}}))
			}
			t.tokens.Record(ctx, int64(res.Usage.Input), metric.WithAttributes(append(base, attribute.String("gen_ai.token.type", "input"))...))
			t.tokens.Record(ctx, int64(res.Usage.Output), metric.WithAttributes(append(base, attribute.String("gen_ai.token.type", "output"))...))
		}
		if err != nil {
			kind := errorType(err)
			base = append(base, attribute.String("error.type", kind))
			fail(span, kind, t.words(err))
		}
		t.chats.Record(ctx, time.Since(begun).Seconds(), metric.WithAttributes(base...))
	}
}

// Tool implements [agent.Tracer]: a span execute_tool, or tools/call of a server's tool.
func (t *Telemetry) Tool(ctx context.Context, tool *agent.ToolTrace) (context.Context, func(*mcp.CallToolResult, error)) {
	name, kind := "execute_tool "+tool.Tool, trace.SpanKindInternal
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", tool.Tool),
		attribute.String("gen_ai.tool.call.id", tool.ID),
		attribute.String("gen_ai.tool.type", "function"),
	}
	if tool.Server != "" {
		name, kind = mcp.MethodCallTool+" "+tool.Tool, trace.SpanKindClient
		attrs[3] = attribute.String("gen_ai.tool.type", "extension")
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	if t.content {
		span.SetAttributes(attribute.String("gen_ai.tool.call.arguments", clip.Text(string(tool.Arguments), maxContent)))
	}
	if tool.Server != "" {
		ctx = context.WithValue(ctx, toolSpan{}, span)
	}
	return ctx, func(res *mcp.CallToolResult, err error) {
		defer span.End()
		switch {
		case err != nil:
			fail(span, errorType(err), t.words(err))
		case res != nil && res.IsError:
			fail(span, toolError, "the tool failed")
		}
		if t.content && res != nil {
			span.SetAttributes(asJSON("gen_ai.tool.call.result", res))
		}
	}
}
