package rest_test

import (
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

func TestUsage(t *testing.T) {
	req := &llm.Request{Messages: []llm.Message{llm.User("Hello")}}
	tests := []struct {
		input, output, bytes int
		want                 llm.Usage
	}{
		{12, 3, 9, llm.Usage{Input: 12, Output: 3}},
		{12, 0, 0, llm.Usage{Input: 12}},
		{12, 0, 9, llm.Usage{Input: 12, Output: 3, Estimated: true}},
		{0, 3, 9, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{0, 0, 9, llm.Usage{Input: 10, Output: 3, Estimated: true}},
		{-5, -5, 9, llm.Usage{Input: 10, Output: 3, Estimated: true}},
	}
	for _, tt := range tests {
		if got := rest.Usage(req, tt.input, tt.output, tt.bytes); got != tt.want {
			t.Errorf("Usage(%d, %d, %d): got %+v, want %+v", tt.input, tt.output, tt.bytes, got, tt.want)
		}
	}
}
