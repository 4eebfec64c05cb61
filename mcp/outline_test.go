package mcp

import (
	"strings"
	"testing"
)

// WIRE-04, ROB-2: of a message that is too long to be read its ends say whose it is.
func TestOutline(t *testing.T) {
	long := `"` + strings.Repeat("x", 5000) + `"`
	tests := []struct {
		name, message string
		method, id    string
	}{
		{"id first", `{"jsonrpc":"2.0","id":7,"result":{"a":` + long + `}}`, "", "7"},
		{"id last", `{"result":{"id":5,"a":` + long + `},"jsonrpc":"2.0","id":7}`, "", "7"},
		{"id last, with spaces", "{\"result\":{\"a\":" + long + "}, \"id\" : \"a\\\"b\" }\r\n", "", `"a\"b"`},
		{"id within the result", `{"jsonrpc":"2.0","result":{"id":5,"a":` + long + `}}`, "", ""},
		{"id of the result at its end", `{"result":{"a":` + long + `,"id":5}}`, "", ""},
		{"a text that looks like it", `{"result":{"a":` + long[:5000] + `,\"id\":5}"}`, "", ""},
		{"a text that ends like it", `{"result":` + long[:5000] + `, \"id\":5}`, "", ""},
		{"no id", `{"jsonrpc":"2.0","method":"notifications/message","params":{"a":` + long + `}}`, "notifications/message", ""},
		{"request", `{"id":3,"method":"sampling/createMessage","params":{"a":` + long + `}}`, "sampling/createMessage", "3"},
		{"request, id last", `{"method":"sampling/createMessage","params":{"a":` + long + `},"jsonrpc":"2.0","id":3}`, "sampling/createMessage", "3"},
		{"id that is none", `{"id":{"a":1},"result":` + long + `}`, "", ""},
		{"not JSON", strings.Repeat("x", 5000), "", ""},
		{"array", `[{"id":1,"result":` + long + `}]`, "", ""},
		{"short", `{"id":1}`, "", "1"},
		{"nothing", ``, "", ""},
	}
	for _, tt := range tests {
		head, tail := tt.message[:min(1024, len(tt.message))], tt.message[max(0, len(tt.message)-1024):]
		method, id := Outline([]byte(head), []byte(tail))
		if method != tt.method || id.String() != tt.id {
			t.Errorf("%s: got %q, %s, want %q, %s", tt.name, method, id, tt.method, tt.id)
		}
	}
}
