// Package schema makes a document of facts by its published JSON Schema, and checks one. It does no I/O and reads no clock.
//
// # Filling
//
// There is no Go struct for any document. Compile turns a schema file and our overlay into a Filler, once;
// Fill then walks the layout in order, takes each value from where the overlay says, from the rule module's answer,
// from the fact under the same path, or from the schema's constant, judges the result by every keyword, and writes
// it. Conditions look at the resolved document, never at the facts.
//
// # Overlays
//
// An overlay is a JSON object beside a schema file. Every entry of from, drop and add carries its "reason"; paths are
// those of the document, "[]" for each item of a list.
//
//	total      the name of the summary amount that stands for the whole document
//	taxes      {"path", "catalogue"}: the list of codigo, descripcion and valor that the module's taxes fill
//	from       {"path", …}: where a value comes from when not from its own name:
//	           "fact" another fact, and when that is absent, or alone, one of "amount" a summary amount of the
//	           module and "value" a constant; or "words" a summary amount, written out.
//	           With "form" the fact's text is written with other characters around its own, "########-#"; with
//	           "when": {"fact", "is"} only where that fact is that text. A text that does not fit stays as it came.
//	           Outside cuerpoDocumento, resumen and extension a place takes its own fact: see agree.go.
//	drop       {"path", "keyword"}: a keyword of the file that MH's live validator does not heed
//	add        {"path", "schema"}: keywords, conditions among them, that the file lacks
//	catalogue  {"path", "catalogue", "parent"}: the code list that decides, and the neighbour that a code depends on
package schema
