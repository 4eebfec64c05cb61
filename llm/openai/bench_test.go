package openai_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/openai"
)

// BenchmarkStream is the cost of a turn on our side: building the request and reading the
// answer, without a network.
func BenchmarkStream(b *testing.B) {
	for _, chunks := range []int{1, 100} {
		b.Run(fmt.Sprintf("chunks=%d", chunks), func(b *testing.B) {
			const text = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
			const end = `data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
			body := append(bytes.Repeat([]byte(text), chunks), end...)
			c := openai.New("m", &openai.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
			})}})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := llm.Generate(b.Context(), c, hello()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
