package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// callFrame is a tools/call whose arguments hold about size bytes.
func callFrame(size int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s","count":3,"flag":true},"_meta":{"progressToken":77,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		strings.Repeat("x", size))
}

// floorMessage is what a program without this package would decode into.
type floorMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      json.RawMessage `json:"_meta"`
	} `json:"params"`
}

func BenchmarkScanToolsCall(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		frame := callFrame(size)
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			var m Message
			for b.Loop() {
				if err := Scan(frame, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("floor/size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				var m floorMessage
				if err := json.Unmarshal(frame, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendResult(b *testing.B) {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type floorAnswer struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Result  struct {
			Content []block `json:"content"`
		} `json:"result"`
	}
	for _, size := range []int{100, 64 << 10} {
		text := strings.Repeat("x", size)
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			r := &CallToolResult{Content: Contents{Text(text)}}
			id, buf := IntID(1234), []byte(nil)
			for b.Loop() {
				var err error
				if buf, err = AppendResultOf(buf[:0], id, r, V2025_11_25); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
		b.Run(fmt.Sprintf("floor/size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			a := floorAnswer{JSONRPC: "2.0", ID: 1234}
			a.Result.Content = []block{{"text", text}}
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = json.Marshal(&a); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}
