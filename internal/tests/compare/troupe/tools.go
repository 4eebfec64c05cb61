package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type echoIn struct {
	Message string   `json:"message"`
	Count   int      `json:"count"`
	Tags    []string `json:"tags"`
}

func echo(_ context.Context, in echoIn) (string, error) { return in.Message, nil }

type waitIn struct {
	Key string `json:"key"`
}

type askIn struct {
	N int `json:"n"`
}

// goOn is the form of each question.
var goOn = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)

// ask elicits n times.
func ask(ctx context.Context, req *mcpserver.ToolRequest, in askIn) (string, error) {
	for i := range in.N {
		answer, err := req.ElicitForm(ctx, strconv.Itoa(i), &mcp.ElicitParams{Message: "go on?", RequestedSchema: goOn})
		if err != nil {
			return "", err
		}
		if answer.Action != mcp.ActionAccept {
			return "", fmt.Errorf("question %d: %s", i, answer.Action)
		}
	}
	return "asked " + strconv.Itoa(in.N) + " times", nil
}

// dialNotify returns what tells addr of an event; nothing without one.
func dialNotify(addr string) (func(event, key string), error) {
	if addr == "" {
		return func(string, string) {}, nil
	}
	c, err := net.Dial("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("BENCH_NOTIFY: %w", err)
	}
	// A lost datagram shows as a lost cancel in the load generator.
	return func(event, key string) { _, _ = c.Write([]byte(event + key)) }, nil
}
