package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// role makes the test binary one of the servers.
const role = "TROUPE_INTEROP_SERVER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "sdk":
		err = serveSDK()
	case "modern":
		err = serveModern()
	case "ours":
		err = serveOurs()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// patience bounds each wait on a real process.
const patience = 30 * time.Second

// await waits for a file that another process makes.
func await(t *testing.T, file string) (text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	until(t, ctx, func() bool {
		data, err := os.ReadFile(file)
		text = string(data)
		return err == nil
	})
	return text
}

// until waits for an effect of another process, which does not report it.
func until(t *testing.T, ctx context.Context, what func() bool) {
	t.Helper()
	for ; !what(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("it did not happen")
		}
	}
}

func TestSDKClientDrivesOurServer(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			progress := make(chan *sdk.ProgressNotificationParams, 10)
			client := sdk.NewClient(&sdk.Implementation{Name: "sdk-client", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { progress <- req.Params },
			})
			cmd := exec.Command(executable(t))
			cmd.Env = append(os.Environ(), role+"=ours")
			session, err := client.Connect(ctx, &sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: string(v)})
			if err != nil {
				t.Fatalf("Connect: %v", err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != string(v) {
				t.Errorf("negotiated %s, want %s", got, v)
			}

			tools, err := session.ListTools(ctx, nil)
			if err != nil || len(tools.Tools) != 3 {
				t.Fatalf("ListTools: got %v, %v, want 3 tools", tools, err)
			}
			res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "add", Arguments: map[string]any{"A": 2, "B": 40}})
			if err != nil || res.IsError || !strings.Contains(text(res), "42") {
				t.Fatalf("add: got %s, %v, want 42", text(res), err)
			}
			bad, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "add", Arguments: map[string]any{"A": "two"}})
			if err == nil && !bad.IsError {
				t.Errorf("add with a string: got %s, want a refusal", text(bad))
			}
			if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "nothing"}); err == nil {
				t.Error("an unknown tool: got no error")
			}

			params := &sdk.CallToolParams{Name: "steps", Arguments: map[string]any{"N": 3}}
			params.SetProgressToken("p1")
			if _, err := session.CallTool(ctx, params); err != nil {
				t.Fatalf("steps: %v", err)
			}
			last := 0.0
			for last < 3 {
				select {
				case p := <-progress:
					if p.Progress <= last {
						t.Errorf("progress %v after %v: it must increase (PROG-03)", p.Progress, last)
					}
					last = p.Progress
				case <-ctx.Done():
					t.Fatalf("progress: got up to %v, want 3", last)
				}
			}

			file := filepath.Join(t.TempDir(), "cancelled")
			calling, stop := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() {
				_, err := session.CallTool(calling, &sdk.CallToolParams{Name: "block", Arguments: map[string]any{"file": file}})
				ended <- err
			}()
			await(t, file+".begun")
			stop()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("block: got %v, want it cancelled", err)
			}
			if got := await(t, file); got != "cancelled" {
				t.Errorf("the handler saw %q, want its cancel", got)
			}
		})
	}
}

func text(res *sdk.CallToolResult) string {
	if res == nil {
		return ""
	}
	data, _ := json.Marshal(res)
	return string(data)
}

func TestOurHostDrivesSDKServer(t *testing.T) {
	tests := []struct {
		protocol string
		want     mcp.Version
	}{
		{"auto", mcp.V2026_07_28},
		{"modern", mcp.V2026_07_28},
		{"legacy", mcp.V2025_11_25},
		{"2025-06-18", mcp.V2025_06_18},
		{"2025-03-26", mcp.V2025_03_26},
		{"2024-11-05", mcp.V2024_11_05},
	}
	for _, tt := range tests {
		t.Run(tt.protocol, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			server := mcpclient.Command(executable(t))
			server.Name, server.Protocol = "sdk", tt.protocol
			as := "sdk"
			server.Env = map[string]*string{role: &as}
			client, err := mcpclient.Dial(ctx, server, nil)
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			defer client.Close()
			info, err := client.Info(ctx)
			if err != nil || info.Version != tt.want {
				t.Fatalf("Info: got %+v, %v, want %s", info, err, tt.want)
			}

			tools, err := client.ListTools(ctx)
			if err != nil || len(tools) != 3 {
				t.Fatalf("ListTools: got %v, %v, want 3 tools", tools, err)
			}
			res, err := client.CallTool(ctx, "add", json.RawMessage(`{"A":2,"B":40}`), nil)
			if err != nil || res.IsError || !strings.Contains(res.Content.Text(), "42") {
				t.Fatalf("add: got %+v, %v, want 42", res, err)
			}

			var steps []float64
			_, err = client.CallTool(ctx, "steps", json.RawMessage(`{"N":3}`), &mcpclient.CallOptions{
				Progress: func(p mcpclient.Progress) { steps = append(steps, p.Progress) },
			})
			if err != nil || len(steps) == 0 || steps[len(steps)-1] != 3 {
				t.Errorf("steps: got progress %v, %v, want up to 3", steps, err)
			}

			file := filepath.Join(t.TempDir(), "cancelled")
			args, _ := json.Marshal(blockIn{file})
			why := errors.New("no longer wanted")
			calling, stop := context.WithCancelCause(ctx)
			ended := make(chan error, 1)
			go func() {
				_, err := client.CallTool(calling, "block", args, nil)
				ended <- err
			}()
			await(t, file+".begun")
			stop(why)
			if err := <-ended; !errors.Is(err, why) {
				t.Errorf("block: got %v, want %v", err, why)
			}
			if got := await(t, file); got != "cancelled" {
				t.Errorf("the handler saw %q, want its cancel", got)
			}
		})
	}
}
