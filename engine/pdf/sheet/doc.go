// Package sheet is paper: it measures and breaks texts, keeps what is drawn on each page, and writes the pages as a PDF. Lengths are in
// points from the top left corner. It knows nothing of documents.
package sheet
