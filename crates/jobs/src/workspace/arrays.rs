//! Outputs that are arrays: from the program's files to the arrays' bytes.

use std::fs::{self, File};
use std::path::Path;

use fishplate_contract::ArrayType;
use fishplate_formats::array_file::{self, LocatedBytes};
use fishplate_formats::dimension::{Dimensions, check_empty_rows};

use super::beneath;
use crate::executor::{ArrayBytes, OutputContent};
use fishplate_programs::plan::{OutputRule, Plan};

/// The arrays of one job, collected one after the other.
pub(super) struct CollectedArrays<'j> {
    directory: &'j Path,
    dimensions: Dimensions,
    /// New files so far.
    files: u32,
}

/// Where new files go.
pub(super) const DIRECTORY: &str = "arrays";

impl<'j> CollectedArrays<'j> {
    pub(super) fn new(plan: &Plan, directory: &'j Path) -> Self {
        Self { directory, dimensions: plan.dimensions.clone(), files: 0 }
    }

    /// The array in a file of the workspace. What is no array of this type is told with the place.
    pub(super) fn collect(
        &mut self,
        rule: &OutputRule,
        array: &ArrayType,
        path: &str,
        file: &File,
    ) -> Result<OutputContent, String> {
        let format = rule.format.unwrap_or_default();
        let axes = self.dimensions.axes(array);
        let directory = self.directory;
        let first = self.files;
        let mut create = || {
            if self.files == 0 {
                // Of a process that was killed while it collected, or the program's own.
                let _ = fs::remove_dir_all(directory.join(DIRECTORY));
            }
            self.files += 1;
            beneath::create_new(directory, &format!("{DIRECTORY}/{}", self.files))
        };
        let read = array_file::read(file, &format, array.element, &axes, &mut create);
        let found = read.map_err(|error| error.about(path))?;
        // What was only on the way to the last.
        for made in first + 1..self.files {
            let _ = fs::remove_file(directory.join(DIRECTORY).join(made.to_string()));
        }
        let what = format!("output {} ({path})", rule.name);
        self.dimensions.bind(array, &found.shape, &what)?;
        check_empty_rows(&found.shape, &what)?;
        let unreadable = |error| format!("{path} can't be read: {error}");
        let length = |file: &File| file.metadata().map(|metadata| metadata.len());
        let bytes = match found.bytes {
            LocatedBytes::Memory(bytes) => ArrayBytes::Inline(bytes),
            LocatedBytes::Same => ArrayBytes::File {
                path: format!("work/{path}"),
                len: length(file).map_err(unreadable)?,
            },
            LocatedBytes::New(new) => ArrayBytes::File {
                path: format!("{DIRECTORY}/{}", self.files),
                len: length(&new).map_err(unreadable)?,
            },
        };
        let element = array.element.name().to_owned();
        Ok(OutputContent::Array { element, shape: found.shape, bytes })
    }
}
