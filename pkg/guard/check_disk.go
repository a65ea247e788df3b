package guard

import "fmt"

// diskSpace: a seed by copy or clone holds the whole shard in the work folder, with its redo
// log and temporary files.
func diskSpace(f *Facts) []Finding {
	server := "this machine, " + f.Config.WorkDir
	if f.FreeErr != nil {
		return blind(server, f.FreeErr, "make the folder, or name another as workdir")
	}
	var data uint64
	for _, s := range f.Sides {
		data = max(data, s.Bytes())
	}
	const extra = 512 << 20
	need := data + data/4 + extra
	found := fmt.Sprintf("%.1f GB free for %.1f GB of data", gb(f.FreeBytes), gb(data))
	expected := fmt.Sprintf("at least %.1f GB", gb(need))
	if f.FreeBytes < need {
		return refuse(server, found, expected, "make room, or name another folder as workdir")
	}
	return good(server, "%s", found)
}

func gb(n uint64) float64 { return float64(n) / (1 << 30) }
