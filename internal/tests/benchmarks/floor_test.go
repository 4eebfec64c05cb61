package benchmarks

import (
	"bufio"
	"encoding/json"
	"io"
)

// The floor: typed structs, one decode and one encode for each line.
type (
	floorRequest struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Params  struct {
			Name      string `json:"name"`
			Arguments echoIn `json:"arguments"`
		} `json:"params"`
	}
	floorResponse struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  floorResult     `json:"result"`
	}
	floorResult struct {
		Content []floorText `json:"content"`
	}
	floorText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

// handshake is what a client wants to hear first.
const handshake = `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"floor","version":"1"}}}`

func serveFloor(r io.Reader, w io.Writer) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		var req floorRequest
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if req.ID == nil {
			continue
		}
		res := floorResponse{JSONRPC: "2.0", ID: req.ID}
		if req.Method == "tools/call" {
			res.Result.Content = []floorText{{Type: "text", Text: req.Params.Arguments.answer()}}
		}
		data, err := json.Marshal(res)
		if err != nil {
			return err
		}
		if req.Method == "initialize" {
			data = []byte(`{"jsonrpc":"2.0","id":` + string(req.ID) + handshake)
		}
		out.Write(data)
		out.WriteByte('\n')
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}
