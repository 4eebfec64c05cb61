package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// XTASK-01, XTASK-16, XTASK-17, TASK-18: over HTTP a request about a task names it in
// Mcp-Name, is answered without a stream, and refused with 400 without the extension.
func TestTasksOverHTTP(t *testing.T) {
	s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	addTaskTools(t, s, &gate{ended: make(chan error, 10)})
	post := func(method, name, params, extra string) (int, message) {
		t.Helper()
		body := strings.Replace(request(mcp.Latest, 1, method, params), `"elicitation":{"form":{}}`, `"elicitation":{"form":{}}`+extra, 1)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		for key, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": string(mcp.Latest), "Mcp-Method": method, "Mcp-Name": name,
		} {
			req.Header.Set(key, value)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, req)
		var m message
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "application/json") || json.Unmarshal(w.Body.Bytes(), &m) != nil {
			t.Errorf("%s: got %s: %s", method, got, w.Body)
		}
		return w.Code, m
	}
	code, m := post(mcp.MethodCallTool, "slow", `{"name":"slow","arguments":{"seconds":100}}`, extensionOn)
	var task mcp.ExtensionTask
	if err := json.Unmarshal(m.Result, &task); err != nil || code != http.StatusOK || task.ResultType != mcp.ResultTask {
		t.Fatalf("tools/call: got %d, %s %v, want a task", code, m.Result, m.Error)
	}
	for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
		params := fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, task.TaskID)
		if code, m := post(method, task.TaskID, params, extensionOn); code != http.StatusOK || m.Error != nil {
			t.Errorf("%s: got %d, %v", method, code, m.Error)
		}
		for _, name := range []string{"other", ""} {
			if code, m := post(method, name, params, extensionOn); code != http.StatusBadRequest || m.Error == nil || m.Error.Code != mcp.CodeHeaderMismatch {
				t.Errorf("%s with Mcp-Name %q: got %d, %v, want 400 and -32020", method, name, code, m.Error)
			}
		}
		if code, m := post(method, task.TaskID, params, ""); code != http.StatusBadRequest || m.Error == nil || m.Error.Code != mcp.CodeMissingClientCapability {
			t.Errorf("%s without the extension: got %d, %v, want 400 and -32021", method, code, m.Error)
		}
	}
}
