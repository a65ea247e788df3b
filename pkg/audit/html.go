package audit

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/vifl/vifl/pkg/audit/planner"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%.2f%%", v) },
	"number":  func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"tries":   triesText,
	"join":    func(s []string) string { return strings.Join(s, ", ") },
	"failing": func(v float64) string { return fmt.Sprintf("%.4g%%", v*100) },
}).Parse(pageText))

// colors are those of the classes in pictures; good and bad differ in lightness, too.
var colors = map[planner.Class]string{
	planner.None: "#c9ced6", planner.OneShard: "#2e9e6b", planner.Reference: "#67bf95", planner.Unsharded: "#9dd8bb",
	planner.Several: "#e0b03c", planner.Scatter: "#d0563f", planner.DDL: "#8a7fb8", planner.Unsupported: "#6b1f1a",
}

type segment struct {
	Class     planner.Class
	Color     string
	X, Width  float64
	Weight    Weight
	Share     float64
	ShareText string
}

type bar struct {
	Query Query
	Color string
	Y     int
	Width float64
}

type curve struct {
	Name, Color, Points string
	LabelX, LabelY      float64
}

// pageData is what the page shows.
type pageData struct {
	*Result
	Shards      string
	Timed       bool
	Calls, Time []segment
	Bars        []bar
	BarsHeight  int
	Unsupported []Query
	Shown       []Query
	Hidden      int
	StormName   string
	StormShards int
	Curves      []curve
	Ticks       []tick
}

type tick struct {
	X    float64
	Text string
}

const (
	pictureWidth = 760.0
	barStep      = 26
	mostRows     = 500 // of the page's table; JSON has all
	mostBars     = 12
)

// WriteHTML prints a result as one page that needs nothing else: pictures are inline SVG, there
// is no script and no reference to another file.
func (r *Result) WriteHTML(w io.Writer) error {
	d := pageData{Result: r, Shards: shardsText(r.Shards), Timed: r.Totals.Timed > 0}
	d.Calls = segments(r.Totals.ByClass, func(w Weight) float64 { return float64(w.Calls) })
	d.Time = segments(r.Totals.ByClass, func(w Weight) float64 { return w.Seconds })
	most := 0.0
	for _, q := range r.Queries {
		if q.Class == planner.Unsupported {
			d.Unsupported = append(d.Unsupported, q)
		}
		if len(d.Bars) == mostBars || q.Class == planner.None || q.Class == planner.Unsupported {
			continue
		}
		cost := q.cost()
		most = math.Max(most, cost)
		d.Bars = append(d.Bars, bar{Query: q, Color: colors[q.Class], Y: len(d.Bars) * barStep, Width: cost})
	}
	for i := range d.Bars {
		d.Bars[i].Width = math.Max(1, d.Bars[i].Width/most*260)
	}
	d.BarsHeight = len(d.Bars) * barStep
	d.Shown = r.Queries[:min(mostRows, len(r.Queries))]
	d.Hidden = len(r.Queries) - len(d.Shown)
	for _, s := range r.Storm {
		if s.Shards > d.StormShards {
			d.StormName, d.StormShards = s.Keyspace, s.Shards
		}
	}
	if d.StormShards > 0 {
		d.Curves, d.Ticks = curves(d.StormShards)
	}
	if err := page.Execute(w, d); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// segments are the parts of a bar of pictureWidth, without class none.
func segments(by map[planner.Class]Weight, value func(Weight) float64) []segment {
	total := 0.0
	for c, w := range by {
		if c != planner.None {
			total += value(w)
		}
	}
	if total == 0 {
		return nil
	}
	var out []segment
	x := 0.0
	for _, c := range planner.Classes {
		w, ok := by[c]
		if !ok || c == planner.None {
			continue
		}
		share := value(w) / total
		out = append(out, segment{Class: c, Color: colors[c], X: x, Width: share * pictureWidth, Weight: w, Share: share * 100, ShareText: fmt.Sprintf("%.2f%%", share*100)})
		x += share * pictureWidth
	}
	return out
}

// curves draw (1-q)^S for S from 1 to twice the shards; the picture is 600 by 200.
func curves(shards int) ([]curve, []tick) {
	most := max(2*shards, 8)
	x := func(s float64) float64 { return 40 + (s-1)/float64(most-1)*560 }
	var out []curve
	for i, q := range []float64{0.001, 0.01, 0.05, 0.1, 0.2} {
		var points strings.Builder
		const steps = 80
		y := 0.0
		for j := range steps + 1 {
			s := 1 + float64(j)/steps*float64(most-1)
			y = 10 + (1-math.Pow(1-q, s))*180
			fmt.Fprintf(&points, "%.1f,%.1f ", x(s), y)
		}
		out = append(out, curve{
			Name: fmt.Sprintf("q = %g%%", q*100), Points: strings.TrimSpace(points.String()), LabelX: x(float64(most)) + 6, LabelY: math.Min(y+4, 192),
			Color: []string{"#2e9e6b", "#5b8f3c", "#e0a52c", "#d0563f", "#6b1f1a"}[i],
		})
	}
	// Labels at the end of close curves are moved apart, from the lowest up.
	for i := len(out) - 2; i >= 0; i-- {
		out[i].LabelY = math.Min(out[i].LabelY, out[i+1].LabelY-13)
	}
	var ticks []tick
	for _, s := range []int{1, shards, most} {
		ticks = append(ticks, tick{X: x(float64(s)), Text: fmt.Sprint(s)})
	}
	return out, ticks
}
