package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// healthTimeout is below the engine's own bound of a health check, so that the reason is seen.
const healthTimeout = 4 * time.Second

// runHealth is the health check of a container.
func runHealth(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%w: dock health: found %d arguments, expected what to look at and where", errUsage, len(args))
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	switch kind, place := args[0], args[1]; kind {
	case "mysqld":
		return serverAnswers(ctx, place)
	case "http":
		return get(ctx, place)
	case "tablet":
		return tabletHealth(ctx, place)
	default:
		return fmt.Errorf("%w: dock health: found %q", errUsage, kind)
	}
}

// get expects a 200.
func get(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("%w: dock health: %w", errUsage, err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 200))
	if err != nil {
		return fmt.Errorf("health: %s: %w", url, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("health: %s: found %s, expected 200: %s", url, answer.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

// tabletHealth asks the tablet that lives in the data folder, unless it waits for its seed: a
// tablet that waits is as it should be.
func tabletHealth(ctx context.Context, dir string) error {
	raw, err := os.ReadFile(statePath(dir))
	if err != nil {
		return fmt.Errorf("health: the tablet has not begun: %w", err)
	}
	switch state := strings.TrimSpace(string(raw)); state {
	case stateWaiting:
		return nil
	case stateRunning:
		return get(ctx, fmt.Sprintf("http://127.0.0.1:%d/debug/health", tabletHTTP))
	default:
		return fmt.Errorf("health: the tablet is %s", state)
	}
}
