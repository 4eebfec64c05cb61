package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/troupe-dev/troupe/mcp"
)

// askServer is a server whose only tool asks the user for a name, and returns the
// answer as it came.
func askServer() {
	call := ""
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m mcp.Message
		if err := mcp.Scan(in.Bytes(), &m); err != nil {
			continue
		}
		id := m.ID.String()
		result := func(id, body string) { fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":` + body + `}`) }
		switch {
		case m.Kind == mcp.KindError && id == `"q"`:
			result(call, `{"content":[{"type":"text","text":"refused"}]}`)
		case m.Kind == mcp.KindResult:
			text, _ := json.Marshal(string(m.Result))
			result(call, `{"content":[{"type":"text","text":`+string(text)+`}]}`)
		case m.Kind != mcp.KindRequest:
		case m.Method == mcp.MethodInitialize:
			result(id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}`)
		case m.Method == mcp.MethodListTools:
			result(id, `{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`)
		case m.Method == mcp.MethodCallTool && len(os.Args) > 1: // with an argument it wants a page visited first
			if call != "" {
				result(id, `{"content":[{"type":"text","text":"signed in"}]}`)
				continue
			}
			call = id
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32042,"message":"sign in first","data":{"elicitations":[` +
				`{"mode":"url","message":"Sign in","url":"https://bank.example/sign-in","elicitationId":"e1"}]}}}`)
		case m.Method == mcp.MethodCallTool:
			call = id
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who are you?",` +
				`"requestedSchema":{"type":"object","properties":{"name":{"type":"string","default":"Bob"}}}}}`)
		default:
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"Method not found"}}`)
		}
	}
}
