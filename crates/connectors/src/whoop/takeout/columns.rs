//! The columns of the export by their names in each language. A table is recognised by its
//! columns, because its file name depends on the language of the account.

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    CycleStart,
    CycleEnd,
    Zone,
    Recovery,
    RestingHr,
    Hrv,
    SkinTemp,
    Spo2,
    DayStrain,
    Energy,
    MaxHr,
    AvgHr,
    SleepOnset,
    WakeOnset,
    SleepPerformance,
    RespiratoryRate,
    Asleep,
    InBed,
    Light,
    Deep,
    Rem,
    Awake,
    SleepNeed,
    SleepDebt,
    SleepEfficiency,
    SleepConsistency,
    Nap,
    WorkoutStart,
    WorkoutEnd,
    Duration,
    Activity,
    ActivityStrain,
    Zone1,
    Zone2,
    Zone3,
    Zone4,
    Zone5,
    Gps,
    Distance,
    AltitudeGain,
    Question,
    AnsweredYes,
    Notes,
}

/// Column names of the exports of 2026, English first, then Spanish.
const NAMES: &[(Column, &[&str])] = &[
    (Column::CycleStart, &["Cycle start time", "Hora de inicio del ciclo"]),
    (Column::CycleEnd, &["Cycle end time", "Hora de finalización del ciclo"]),
    (Column::Zone, &["Cycle timezone", "Zona horaria del ciclo"]),
    (Column::Recovery, &["Recovery score %", "Puntuación de recuperación (%)"]),
    (Column::RestingHr, &["Resting heart rate (bpm)", "Frecuencia cardíaca en reposo (lpm)"]),
    (Column::Hrv, &["Heart rate variability (ms)", "Variabilidad de la frecuencia cardíaca (ms)"]),
    (Column::SkinTemp, &["Skin temp (celsius)", "Temp. cutánea (grados centígrados)"]),
    (Column::Spo2, &["Blood oxygen %", "Oxígeno en sangre %"]),
    (Column::DayStrain, &["Day Strain", "Esfuerzo del día"]),
    (Column::Energy, &["Energy burned (cal)", "Energía quemada (cal)"]),
    (Column::MaxHr, &["Max HR (bpm)", "FC máx. (lpm)"]),
    (Column::AvgHr, &["Average HR (bpm)", "FC promedio (lpm)"]),
    (Column::SleepOnset, &["Sleep onset", "Inicio del sueño"]),
    (Column::WakeOnset, &["Wake onset", "Inicio de la vigilia"]),
    (Column::SleepPerformance, &["Sleep performance %", "Calificación del sueño (%)"]),
    (Column::RespiratoryRate, &["Respiratory rate (rpm)", "Frecuencia respiratoria (rpm)"]),
    (Column::Asleep, &["Asleep duration (min)", "Duración del sueño (min)"]),
    (Column::InBed, &["In bed duration (min)", "Tiempo en la cama (min)"]),
    (Column::Light, &["Light sleep duration (min)", "Duración de sueño ligero (min)"]),
    (Column::Deep, &["Deep (SWS) duration (min)", "Duración de sueño profundo (SWS) (min)"]),
    (Column::Rem, &["REM duration (min)", "Duración de sueño REM (min)"]),
    (
        Column::Awake,
        &["Awake duration (min)", "Tempo despierto/a (min)", "Tiempo despierto/a (min)"],
    ),
    (Column::SleepNeed, &["Sleep need (min)", "Sueño necesario (min)"]),
    (Column::SleepDebt, &["Sleep debt (min)", "Deuda de sueño (min)"]),
    (Column::SleepEfficiency, &["Sleep efficiency %", "Eficiencia del sueño %"]),
    (Column::SleepConsistency, &["Sleep consistency %", "Regularidad del sueño %"]),
    (Column::Nap, &["Nap", "Siesta"]),
    (Column::WorkoutStart, &["Workout start time", "Hora de inicio del entrenamiento"]),
    (Column::WorkoutEnd, &["Workout end time", "Hora de finalización del entrenamiento"]),
    (Column::Duration, &["Duration (min)", "Duración (min)"]),
    (Column::Activity, &["Activity name", "Nombre de la actividad"]),
    (Column::ActivityStrain, &["Activity Strain", "Esfuerzo de actividad"]),
    (Column::Zone1, &["HR Zone 1 %", "Zona FC 1%"]),
    (Column::Zone2, &["HR Zone 2 %", "Zona FC 2%"]),
    (Column::Zone3, &["HR Zone 3 %", "Zona FC 3%"]),
    (Column::Zone4, &["HR Zone 4 %", "Zona FC 4%"]),
    (Column::Zone5, &["HR Zone 5 %", "Zona FC 5%"]),
    (Column::Gps, &["GPS enabled", "GPS habilitado"]),
    (Column::Distance, &["Distance (meters)"]),
    (Column::AltitudeGain, &["Altitude Gain (meters)"]),
    (Column::Question, &["Question text", "Texto de la pregunta"]),
    (Column::AnsweredYes, &["Answered yes", "Respondió \"Sí\""]),
    (Column::Notes, &["Notes", "Notas"]),
];

/// The four tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExportTable {
    Cycles,
    Sleeps,
    Workouts,
    Journal,
}

/// How a table writes its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decimals {
    Point,
    Comma,
    /// Every comma has three digits after it, so it may be a thousands separator.
    Unclear,
}

/// A recognised header row.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) table: ExportTable,
    pub(super) decimals: Decimals,
    positions: Vec<Option<Column>>,
}

impl Header {
    /// `None` if the columns match no known table.
    pub(super) fn read<'a>(names: impl Iterator<Item = &'a str>) -> Option<Header> {
        let positions: Vec<Option<Column>> = names.map(column).collect();
        let has = |column| positions.contains(&Some(column));
        if !has(Column::CycleStart) {
            return None;
        }
        let table = if has(Column::Question) {
            ExportTable::Journal
        } else if has(Column::WorkoutStart) {
            ExportTable::Workouts
        } else if has(Column::Nap) && has(Column::SleepOnset) {
            ExportTable::Sleeps
        } else if has(Column::Recovery) || has(Column::DayStrain) {
            ExportTable::Cycles
        } else {
            return None;
        };
        Some(Header { table, decimals: Decimals::Point, positions })
    }

    /// The index of a column.
    pub(super) fn position(&self, column: Column) -> Option<usize> {
        self.positions.iter().position(|position| *position == Some(column))
    }
}

impl Header {
    /// Detects the number format from all rows. A decimal point anywhere decides it.
    pub(super) fn learn_decimals<'a>(&mut self, rows: impl Iterator<Item = &'a csv::StringRecord>) {
        let numbers = rows.flat_map(|row| row.iter().zip(&self.positions));
        let numbers = numbers.filter(|(_, position)| position.is_some_and(Column::is_number));
        let mut decimals = None;
        for (text, _) in numbers {
            if text.contains('.') {
                self.decimals = Decimals::Point;
                return;
            }
            match text.trim().split_once(',') {
                Some((_, behind)) if behind.len() == 3 => {
                    decimals = decimals.or(Some(Decimals::Unclear));
                }
                Some(_) => decimals = Some(Decimals::Comma),
                None => {}
            }
        }
        self.decimals = decimals.unwrap_or(Decimals::Point);
    }
}

impl Column {
    fn is_number(self) -> bool {
        !matches!(
            self,
            Column::CycleStart
                | Column::CycleEnd
                | Column::Zone
                | Column::SleepOnset
                | Column::WakeOnset
                | Column::Nap
                | Column::WorkoutStart
                | Column::WorkoutEnd
                | Column::Activity
                | Column::Gps
                | Column::Question
                | Column::AnsweredYes
                | Column::Notes
        )
    }
}

impl std::fmt::Display for Column {
    /// The English name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let named = NAMES.iter().find(|(column, _)| column == self);
        let name = named.and_then(|(_, names)| names.first()).copied().unwrap_or_default();
        write!(f, "`{name}`")
    }
}

fn column(name: &str) -> Option<Column> {
    let folded = fold(name);
    let is_it = |names: &&[&str]| names.iter().any(|known| fold(known) == folded);
    NAMES.iter().find(|(_, names)| is_it(names)).map(|(column, _)| *column)
}

/// Letters and digits only, in lower case: exports have moved spaces, brackets and per cent signs.
fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_name_leads_to_one_column() {
        let mut folded: Vec<String> =
            NAMES.iter().flat_map(|(_, names)| *names).map(|name| fold(name)).collect();
        folded.sort_unstable();
        let count = folded.len();
        folded.dedup();
        assert_eq!(folded.len(), count);
    }

    #[test]
    fn a_table_is_known_by_its_columns_in_either_language() {
        let check = |header: &str, table| {
            assert_eq!(Header::read(header.split(',')).map(|h| h.table), table, "{header}");
        };
        check(
            "Cycle start time,Cycle end time,Cycle timezone,Recovery score %",
            Some(ExportTable::Cycles),
        );
        check(
            "Cycle start time,Cycle timezone,Sleep onset,Wake onset,Nap",
            Some(ExportTable::Sleeps),
        );
        check("cycle start time,workout start time,GPS Enabled", Some(ExportTable::Workouts));
        check(
            "\u{feff}Cycle start time,Question text,Answered yes,Notes",
            Some(ExportTable::Journal),
        );
        check("Hora de inicio del ciclo,Inicio del sueño,Siesta", Some(ExportTable::Sleeps));
        check("Hora de inicio del ciclo,Esfuerzo del día", Some(ExportTable::Cycles));
        check("date,steps", None);
    }
}
