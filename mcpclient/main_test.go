package mcpclient

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// modeVariable makes the test binary a server: a process that behaves as its
// value says.
const modeVariable = "TROUPE_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		runServer(mode)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child returns the definition of a real server process.
func childServer(mode string) Server {
	s := Command(os.Args[0])
	s.Name, s.Env = mode, map[string]*string{modeVariable: &mode}
	return s
}

// runServer is a legacy server on stdin and stdout that goes wrong in one way.
func runServer(mode string) {
	switch mode {
	case "http":
		serveHTTP()
	case "dies":
		fmt.Fprintln(os.Stderr, "cannot open the database")
		os.Exit(7)
	case "garbage":
		for {
			if _, err := fmt.Println("garbage \x00\xff {"); err != nil {
				return
			}
		}
	case "silent":
		select {}
	case "huge":
		out := bufio.NewWriter(os.Stdout)
		_, _ = out.WriteString(`{"jsonrpc":"2.0","method":"`)
		for range 100 {
			_, _ = out.WriteString(strings.Repeat("x", 1<<20))
		}
		_, _ = out.WriteString("\"}\n")
		out.Flush()
		select {}
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "stubborn family":
		signal.Ignore(syscall.SIGTERM)
		startSleep()
	case "family":
		startSleep()
	case "orphan": // its child holds the pipes
		startSleep()
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 8<<20)
	for in.Scan() {
		var m mcp.Message
		if err := mcp.Scan(in.Bytes(), &m); err != nil || m.Kind != mcp.KindRequest {
			continue
		}
		answer(mode, &m)
	}
	if strings.HasPrefix(mode, "stubborn") {
		time.Sleep(time.Hour)
	}
}

// sleep is what startSleep has started: it holds our pipes.
var sleep *exec.Cmd

func startSleep() {
	sleep = exec.Command("sleep", "60")
	sleep.Stdout, sleep.Stderr = os.Stdout, os.Stderr
	if err := sleep.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func answer(mode string, m *mcp.Message) {
	id := m.ID.String()
	switch m.Method {
	case mcp.MethodInitialize:
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`)
	case mcp.MethodListTools:
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`)
	case mcp.MethodCallTool:
		called(mode, m, id)
	default:
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// called answers tools/call, or does not.
func called(mode string, m *mcp.Message, id string) {
	name, _ := m.NameString()
	text := name
	switch name {
	case "environment":
		text = strings.Join(os.Environ(), " ")
	case "pids":
		text = fmt.Sprintf("[%d,%d]", os.Getpid(), sleep.Process.Pid)
	}
	result := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + fmt.Sprintf("%q", text) + `}]}}`
	switch {
	case name == "die":
		os.Exit(9)
	case mode == "twice":
		fmt.Println(result)
		fmt.Println(result)
	case mode == "deep":
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`)
	case mode == "duplicate":
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[],"content":[]}}`)
	case mode == "idtype":
		fmt.Println(`{"jsonrpc":"2.0","id":"` + id + `","result":{"content":[]}}`)
	case mode == "mute":
	default:
		fmt.Println(result)
	}
}
