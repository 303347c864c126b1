package stack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metric returns the sum of all series of a metric that the manager serves; 0
// if it serves none of that name.
func (m *Manager) Metric(ctx context.Context, name string) (float64, error) {
	text, err := m.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), name)
		if !found || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += value
	}
	return sum, nil
}

// Ready returns nil once the manager works, or could take over at once.
func (m *Manager) Ready(ctx context.Context) error {
	_, err := m.get(ctx, "/readyz")
	return err
}

func (m *Manager) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", m.Port, path), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s of %s: %s", path, m.Name, resp.Status)
	}
	return string(text), err
}
