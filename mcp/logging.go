package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
)

// LogLevel is a level of RFC 5424.
type LogLevel string

// The levels, ascending.
const (
	LogDebug     LogLevel = "debug"
	LogInfo      LogLevel = "info"
	LogNotice    LogLevel = "notice"
	LogWarning   LogLevel = "warning"
	LogError     LogLevel = "error"
	LogCritical  LogLevel = "critical"
	LogAlert     LogLevel = "alert"
	LogEmergency LogLevel = "emergency"
)

var logLevels = []LogLevel{LogDebug, LogInfo, LogNotice, LogWarning, LogError, LogCritical, LogAlert, LogEmergency}

// Valid reports whether l is one of the eight levels.
func (l LogLevel) Valid() bool { return slices.Contains(logLevels, l) }

// AtLeast reports whether l is min or above; false if either is not a level.
func (l LogLevel) AtLeast(min LogLevel) bool {
	i, j := slices.Index(logLevels, l), slices.Index(logLevels, min)
	return i >= 0 && j >= 0 && i >= j
}

// SetLevelParams are the params of logging/setLevel; legacy.
type SetLevelParams struct {
	Level LogLevel `json:"level"`
	Meta  Meta     `json:"_meta,omitzero"`
}

// Validate checks that the level is one.
func (p *SetLevelParams) Validate() error {
	if !p.Level.Valid() {
		return fmt.Errorf("%s: unknown level %q", MethodSetLevel, p.Level)
	}
	return nil
}

// LogParams are the params of notifications/message.
type LogParams struct {
	Level  LogLevel        `json:"level"`
	Logger string          `json:"logger,omitzero"`
	Data   json.RawMessage `json:"data"` // any JSON value
	Meta   Meta            `json:"_meta,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that level and data are there.
func (p *LogParams) Validate() error {
	if !p.Level.Valid() {
		return fmt.Errorf("%s: unknown level %q", NotificationMessage, p.Level)
	}
	return required(NotificationMessage, "data", p.Data != nil)
}
